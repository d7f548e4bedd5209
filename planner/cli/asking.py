"""From a command line to an answer: which bundle, which request or chat, what the options override."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from planner.cli.failure import usage
from planner.cli.files import STDIO, cache_folder, read_input, user_folder
from planner.values.bundle import EngineChoice
from planner.values.request import CONCESSIONS, Concession, Options, PlanRequest

if TYPE_CHECKING:
    from planner.adapters.frames import Frame
    from planner.bundles.bundle import FolderBundle
    from planner.ledger.ledger import Ledger
    from planner.planner import Planner
    from planner.values.plan import Plan, Refusal
    from planner.values.switches import Switches
    from planner.wire.chat import Chat

DEFAULT_BUNDLE = "qwen3-0.6b"
F = TypeVar("F", bound=Callable[..., Any])

BUNDLE_HELP = "A bundle id (see planner bundle list) or the path of a model folder, a GGUF or a LiteRT-LM file."


engine_option = click.option(
    "--engine", type=click.Choice(get_args(EngineChoice)), default="exact", show_default=True,
    help="fast encodes with kitoken, for a bundle on which it gave the same ids.",
)  # fmt: skip


app_option = click.option(
    "--app-version", metavar="V", help="The bundle as an app of this version has it, where a template is activated.",
)  # fmt: skip


def overriding(function: F) -> F:
    """Add the options that override fields of a request."""
    for option in reversed((
        click.option("--bundle", metavar="ID|PATH", help=BUNDLE_HELP),
        engine_option,
        click.option("--window", type=click.IntRange(min=1), metavar="N",
                     help="Tokens that prompt and answer share; overrides maxInputTokens and tierId."),
        click.option("--reserve", type=click.IntRange(min=0), metavar="N",
                     help="Tokens kept free for the answer; overrides reservedOutputTokens."),
        click.option("--allow", type=click.Choice(CONCESSIONS), multiple=True, metavar="CONCESSION",
                     help=f"Allow one reshaping step, may be repeated: {', '.join(CONCESSIONS)}."),
        click.option("--now", metavar="INSTANT",
                     help="The clock that templates and date rules see, such as 2026-11-30T16:30:00Z."),
    )):  # fmt: skip
        function = option(function)
    return function


@dataclass(frozen=True, slots=True)
class Overrides:
    """What stood on the command line; None or empty leaves the request as it is."""

    bundle: str | None = None
    engine: EngineChoice = "exact"
    window: int | None = None
    reserve: int | None = None
    allow: tuple[Concession, ...] = ()
    now: str | None = None

    @classmethod
    def taken_from(cls, given: dict[str, Any]) -> Overrides:
        """Take these options out of the parameters of a command."""
        return cls(**{name: given.pop(name) for name in ("bundle", "engine", "window", "reserve", "allow", "now")})

    def apply(self, request: PlanRequest, bundle_id: str) -> PlanRequest:
        """Return the request with the overrides in it."""
        changes: dict[str, Any] = {"model_bundle_id": bundle_id}
        if self.window is not None:
            changes |= {"max_input_tokens": self.window, "tier_id": None}
        if self.reserve is not None:
            changes |= {"reserved_output_tokens": self.reserve, "reserved_output": None}
        if self.now is not None:
            changes["now"] = self.now
        if self.allow:
            allowed = tuple(dict.fromkeys((*request.options.concessions, *self.allow)))
            changes["options"] = replace(request.options, concessions=allowed)
        return replace(request, **changes)


def open_named(ref: str | Path, engine: EngineChoice = "exact") -> FolderBundle:
    """Open a bundle with the user's folders. Raises PlannerFault as `open_bundle` does."""
    from planner.bundles.open import open_bundle

    return open_bundle(ref, user_folder=user_folder(), cache_dir=cache_folder(), engine=engine)


def open_for_app(ref: str, app_version: str | None) -> FolderBundle:
    """Open a bundle as an app of a version has it. Raises what `open_named` raises, RefusalSignal invalid-input."""
    from planner.values.field_rules import is_version

    if app_version is not None and not is_version(app_version):
        raise usage("--app-version is no version label")
    return open_named(ref).for_app(app_version)


def key_of(variable: str | None) -> str | None:
    """Return the key that --api-key-env names, None without the option. Raises RefusalSignal invalid-input."""
    key = None if variable is None else os.environ.get(variable)
    if variable is not None and not key:
        raise usage("--api-key-env names no variable that is set")
    return key


def planner_for(ref: str | Path, engine: EngineChoice = "exact") -> Planner:
    """Return a planner of one opened bundle. Raises PlannerFault as `open_bundle` does, bundle_blocked_by_drift."""
    from planner.planner import Planner

    return Planner(open_named(ref, engine), user_folder=user_folder())


def read_request(name: str) -> PlanRequest:
    """Read a request file or stdin. Raises RefusalSignal invalid-input, PlannerFault file_not_readable."""
    from planner.values.strict_json import REQUEST_BOUNDS
    from planner.wire.parse import parse_request

    data = read_input(name, REQUEST_BOUNDS.total_bytes)
    return parse_request(data, base=None if name == STDIO else Path(name).resolve().parent)


def read_chat(name: str, tools: str | None) -> Chat:
    """Read a chat file and a file of tools; one of the two may be stdin.

    Raises RefusalSignal invalid-input, PlannerFault file_not_readable.
    """
    from planner.values.strict_json import REQUEST_BOUNDS
    from planner.wire.chat import parse_chat

    if name == STDIO and tools == STDIO:
        raise usage("--chat and --tools cannot both be read from stdin")
    limit = REQUEST_BOUNDS.total_bytes
    return parse_chat(read_input(name, limit), None if tools is None else read_input(tools, limit))


def plan_request(name: str, overrides: Overrides) -> Plan | Refusal:
    """Plan a request file. Raises what reading and opening raise."""
    return plan_value(read_request(name), overrides)


def plan_value(request: PlanRequest, overrides: Overrides) -> Plan | Refusal:
    """Plan a request value with overrides. Raises PlannerFault."""
    planner = planner_for(overrides.bundle or request.model_bundle_id, overrides.engine)
    return planner.plan(overrides.apply(request, planner.bundle_id))


def plan_stored(
    ledger: Ledger, conversation: str, name: str | None, overrides: Overrides, switches: Switches
) -> Plan | Refusal:
    """Plan a conversation of a ledger, its frame from a file or as it was stored; the receipt is stored if possible.

    Raises what reading and opening raise, PlannerFault `stale_generation` where the file names an older generation.
    """
    frame = _frame(ledger, conversation, name)
    request = frame.request
    if request.conversation_id not in (None, conversation):
        raise usage("$.conversationId: is another conversation than --conversation")
    planner = planner_for(
        overrides.bundle or (request.model_bundle_id if frame.names_bundle else DEFAULT_BUNDLE), overrides.engine
    )
    # Only a prompt that is rendered whole has its text.
    planner.encoder(app_version=request.app_version).splicing = False
    chat = planner.ledger_conversation(ledger, conversation, switches=switches, app_version=request.app_version)
    request = overrides.apply(request, planner.bundle_id)
    return chat.plan(request, generation=frame.generation, record=not ledger.read_only)


def _frame(ledger: Ledger, conversation: str, name: str | None) -> Frame:
    from planner.adapters.frames import empty_frame, read_frame, stored_frame, versioned
    from planner.values.strict_json import REQUEST_BOUNDS

    if name is None:
        return stored_frame(ledger, conversation) or empty_frame()
    data = read_input(name, REQUEST_BOUNDS.total_bytes)
    frame = read_frame(data, None if name == STDIO else Path(name).resolve().parent)
    # The policy may be the stored one, under whose version summaries were made.
    return replace(frame, request=versioned(frame.request))


def stored_request(ledger: Ledger, conversation: str, name: str | None) -> PlanRequest:
    """Return a ledger's conversation as one request that holds its turns and summaries; nothing is written.

    Raises what reading and opening raise, PlannerFault `conversation_not_found`.
    """
    from planner.ledger.stored import Active

    request = _frame(ledger, conversation, name).request
    view = ledger.view(conversation, active=Active(request.policy_version))
    return replace(
        request, conversation_id=conversation, generation=view.generation, revision=view.revision,
        turns=tuple(view.turns), summaries=view.summaries,
    )  # fmt: skip


def plan_as_kept(
    ledger: Ledger, request: PlanRequest, planner: Planner, *, revoked: frozenset[str] = frozenset(),
    summaries: bool = True,
) -> Plan | Refusal | None:  # fmt: skip
    """Plan a stored conversation as the ledger shows it, None where its turns are all there to be sent instead.

    After a retention run a request cannot say what purged turns still hold in force: a border, a constraint with its
    words, a withdrawal. The view can, for the revision it stands at. Nothing is written.
    request    with conversation, generation and revision; its turns and summaries play no part.
    summaries  false for a call that was made with a switch of compaction off.
    """
    from planner.values.switches import Switches

    conversation = request.conversation_id or ""
    view = ledger.view(conversation)
    if view.boundary is None or (view.generation, view.revision) != (request.generation, request.revision):
        return None
    # Only a prompt that is rendered whole has its text.
    planner.encoder(app_version=request.app_version).splicing = False
    chat = planner.ledger_conversation(
        ledger, conversation, switches=Switches(model=summaries), app_version=request.app_version
    )
    return chat.plan(replace(request, turns=(), summaries=()), revoked=revoked, record=False)


def plan_chat(name: str, tools: str | None, overrides: Overrides, planner: Planner | None = None) -> Plan | Refusal:
    """Plan an OpenAI-style chat file, with a planner that is open already or the bundle that was named.

    Raises what reading and opening raise.
    """
    chat = read_chat(name, tools)
    planner = planner or planner_for(overrides.bundle or DEFAULT_BUNDLE, overrides.engine)
    reserve = overrides.reserve
    return planner.plan(
        messages=chat.messages,
        tools=chat.tools,
        max_tokens=chat.max_tokens if reserve is None else None,
        max_completion_tokens=chat.max_completion_tokens if reserve is None else reserve,
        max_input_tokens=overrides.window,
        now=overrides.now,
        options=Options(concessions=overrides.allow),
    )
