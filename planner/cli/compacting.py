"""What every command of `planner compact` shares: its options, the compactor, the model server, how things ended."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import click

from planner.cli.asking import BUNDLE_HELP, planner_for
from planner.cli.failure import usage
from planner.cli.files import read_input
from planner.cli.opening import conversation_option, json_option, ledger_option, off_option, switches
from planner.values.field_rules import ID_RULE, is_id
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.strict_json import REQUEST_BOUNDS

if TYPE_CHECKING:
    from planner.compaction.call import PromptedRun
    from planner.compactor.service import Compactor
    from planner.ledger.ledger import Ledger
    from planner.ledger.stored import Saved
    from planner.runtimes.chat_server import ChatServer, Completion
    from planner.values.admission import Rights
    from planner.values.compaction import CompactionPlan, Rejected, Staleness

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_RESERVE = 1024
UNVERSIONED = "unversioned"


def compacting(function: F) -> F:
    """Add the options that every command of compaction has."""
    for option in reversed((
        ledger_option,
        conversation_option,
        click.option("--policy-version", metavar="V",
                     help="Version of the policy in force; default: that of the stored policy."),
        click.option("--tail", type=click.IntRange(min=1), metavar="N",
                     help="Newest completed turns that stay as they are."),
        click.option("--risk", type=click.Choice(("low", "high")), metavar="RISK",
                     help="Risk of the conversation, low or high; unknown counts as high."),
        click.option("--goal", metavar="TEXT", help="The goal of the task, for turns that state none."),
        click.option("--goal-id", metavar="ID", help="Id of the record that --goal comes from."),
        click.option("--fact-key", "fact_keys", multiple=True, metavar="KEY",
                     help="A key that passages name a fact by, for the summariser to use; may be repeated."),
        click.option("--rights", metavar="REQUEST.json",
                     help="A request whose claims, citations, passages and now say which sources may be used."),
        click.option("--bundle", metavar="ID|PATH", help=f"Bundle of the summarising model. {BUNDLE_HELP}"),
        click.option("--window", type=click.IntRange(min=1), metavar="N",
                     help="With --bundle: tokens that prompt and summary share."),
        click.option("--reserve", type=click.IntRange(min=1), default=DEFAULT_RESERVE, show_default=True, metavar="N",
                     help="Tokens kept free for a summary."),
        off_option,
        json_option,
    )):  # fmt: skip
        function = option(function)
    return function


def open_compactor(ledger: Ledger, conversation: str, given: dict[str, Any]) -> Compactor:
    """Return the compactor of a conversation with the options given.

    Raises PlannerFault `conversation_not_found`, and those of the bundle.
    """
    from planner.adapters.frames import stored_frame
    from planner.compaction.call import Summariser
    from planner.compaction.strategy import TAIL_TURNS
    from planner.compactor.service import Compactor
    from planner.compactor.shown import Choices

    if given["goal_id"] is not None and given["goal"] is None:
        raise usage("--goal-id goes with --goal")
    if given["window"] is not None and given["bundle"] is None:
        raise usage("--window goes with --bundle")
    if not all(map(is_id, given["fact_keys"])):
        raise usage(f"--fact-key: {ID_RULE}")
    frame = stored_frame(ledger, conversation)
    stored = UNVERSIONED if frame is None else frame.request.policy_version
    choices = Choices(
        given["policy_version"] or stored,
        tail_turns=given["tail"] or TAIL_TURNS,
        risk=given["risk"],
        goal=given["goal"] or "",
        goal_from=given["goal_id"],
        fact_keys=given["fact_keys"],
        rights=None if given["rights"] is None else _rights(given["rights"]),
    )
    summariser = planning = None
    if given["bundle"] is not None:
        planner = planner_for(given["bundle"])
        summariser, planning = Summariser(planner.bundle_id, given["window"], given["reserve"]), planner.plan
    return Compactor(
        ledger, conversation, choices, summariser=summariser, planning=planning, switches=switches(given["off"])
    )


def _rights(name: str) -> Rights:
    """Return what a request says about rights; its passages describe their sources. Raises RefusalSignal."""
    from planner.adapters.frames import read_frame
    from planner.values.admission import Rights
    from planner.values.passage import Citation

    request = read_frame(read_input(name, REQUEST_BOUNDS.total_bytes)).request
    described = tuple(
        Citation(one.citation_id, one.tenant, one.dataset, one.source, one.valid_from, one.valid_to)
        for one in request.passages
    )
    return Rights(request.claims, (*described, *request.citations), request.now)


def active_plan(ledger: Ledger, conversation: str, plan_id: str | None) -> CompactionPlan:
    """Return the plan of this id, or the active one. Raises PlannerFault `conversation_not_found`."""
    if plan_id is None:
        found = ledger.active_plan(conversation)
    else:
        found = ledger.compaction_plan(conversation, plan_id)
    if found is None:
        raise PlannerFault("conversation_not_found", "no compaction plan; see planner compact propose")
    return found


class Asked:
    """A model server as `planner compact run` asks it; which kind it is, is found out with the first run."""

    def __init__(self, url: str, model: str | None, key_variable: str | None, *, must_fit: bool) -> None:
        """Keep the address; `must_fit` where a bundle was named, so that a request without ids did not fit it.

        Raises RefusalSignal for an absent key, PlannerFault for what is no address.
        """
        from planner.runtimes.chat_server import ChatServer

        key = None if key_variable is None else os.environ.get(key_variable)
        if key_variable is not None and not key:
            raise usage("--api-key-env names no variable that is set")
        self._must_fit = must_fit
        self._server: ChatServer = ChatServer(url, model=model, api_key=key)

    @cached_property
    def _takes_ids(self) -> bool:
        return self._server.is_llama()

    def ask(self, prompt: PromptedRun) -> Completion:
        """Ask for one summary: by ids where they are known and taken, else by messages."""
        if self._must_fit and not prompt.ids:
            detail = f"run {prompt.run} does not fit the summariser; run again with --replace"
            raise RefusalSignal("context_policy_overflow", detail)
        if prompt.ids and self._takes_ids:
            return self._server.complete_ids(prompt.ids, prompt.max_output_tokens)
        return self._server.complete_messages(prompt.messages, prompt.max_output_tokens)


def saved_code(found: Saved | Rejected | Staleness) -> tuple[str, str] | None:
    """Return code and detail of what was not stored, None for a summary that is in the ledger."""
    from planner.values.compaction import Rejected, Staleness

    if isinstance(found, Rejected):
        return found.reason, f"{found.detail} {', '.join(found.ids)}".strip()
    if isinstance(found, Staleness):
        return "stale-source", f"{found.cause} {found.causing_id or ''}".strip()
    if found.status in ("accepted", "duplicate"):
        return None
    if found.status == "failed":
        return found.cause or "ledger_io", "the summary was not stored; what was there is as it was"
    return "stale-source", f"{found.cause or ''} {found.causing_id or ''}".strip()


def judged_line(found: Saved | Rejected | Staleness) -> str:
    """Return how a run ended in one line of ids and codes.

    >>> from planner.ledger.stored import Saved
    >>> judged_line(Saved("accepted", "c-1.0", 1))
    'accepted c-1.0@1'
    """
    failed = saved_code(found)
    if failed is not None:
        return f"rejected {failed[0]}: {failed[1]}"
    status, name, version = (getattr(found, key) for key in ("status", "summary_id", "summary_version"))
    return f"{status} {name}@{version}"
