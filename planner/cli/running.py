"""What `planner run` hands to a server: the ids of a plan made now, or of one that was written down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli.asking import DEFAULT_BUNDLE, Overrides, plan_chat, planner_for
from planner.cli.explain import MAX_ANSWER_BYTES, check_digest
from planner.cli.failure import usage
from planner.cli.files import STDIO, read_input, user_folder
from planner.values.reasons import RefusalSignal

if TYPE_CHECKING:
    from planner.bundles.records import Records
    from planner.planner import Planner
    from planner.runtimes.llama_cpp import Served
    from planner.values.account import Account
    from planner.values.observation import Observation
    from planner.values.plan import Plan, Refusal
    from planner.values.receipt import Receipt


@dataclass(frozen=True, slots=True)
class Ready:
    """Ids to run, in tokens what they were planned for; `cached_tokens` is None where nothing is known of before.

    `planner` is that of a plan made now, None for one that was written down.
    """

    ids: Sequence[int] = field(repr=False)
    max_output_tokens: int
    account: Account
    receipt: Receipt = field(repr=False)
    planner: Planner | None = field(default=None, repr=False)
    cached_tokens: int | None = None

    @property
    def prompt_tokens(self) -> int:
        """What the server has to report: the ids, and what the bundle says its runtime adds (R41)."""
        return len(self.ids) + self.account.runtime_overhead_tokens

    def observe(self, served: Served) -> Observation:
        """Judge what the server reported; a difference blocks the bundle. Raises what keeping one raises."""
        from planner.steps.observe import observe
        from planner.values.observation import Reported

        # This server's count is that of the whole prompt, whatever engine the bundle was made for.
        reported = Reported(served.prompt_tokens, served.cached_tokens, served.answer_tokens, meaning="whole_prompt")
        if self.planner is not None:
            return self.planner.observe(self.receipt, reported)
        found = observe(self.receipt, reported, "whole_prompt")
        if found.differs:
            from planner.bundles.records import DRIFT, observation_fields

            _records_of(self.receipt).write(DRIFT, observation_fields(found))
        return found

    def __post_init__(self) -> None:
        """Refuse invalid-input a plan whose window is full: a server would answer with one token all the same."""
        if self.max_output_tokens < 1:
            raise RefusalSignal("invalid-input", "$.reservedOutputTokens: the plan leaves no token for an answer")


def ready_from(
    source: str | None, chat: str | None, tools: str | None, ids: str | None, overrides: Overrides
) -> Ready | Refusal:
    """Return what to run, or the refusal of a request, made now or written down.

    Raises RefusalSignal invalid-input for sources that contradict each other and for ids that are not those of the
    receipt; PlannerFault as opening a bundle and reading files do.
    """
    if (source is None) == (chat is None):
        raise usage("name either a request, plan or receipt, or --chat; see planner run --help")
    if tools is not None and chat is None:
        raise usage("--tools goes with --chat; a request holds its own tools")
    if chat is not None:
        if ids is not None:
            raise usage("--ids goes with a receipt")
        planner = planner_for(overrides.bundle or DEFAULT_BUNDLE, overrides.engine)
        return _of_answer(plan_chat(chat, tools, overrides, planner), planner)
    assert source is not None, "checked above"
    data = read_input(source, MAX_ANSWER_BYTES)
    base = None if source == STDIO else Path(source).resolve().parent
    keys = _keys(data)
    recorded = bool(keys & {"receipt", "planId"})
    if recorded and overrides != Overrides():
        raise usage("a plan is run as it is; to plan with other options, name the request")
    if ids is not None and "planId" not in keys:
        raise usage("--ids goes with a receipt")
    if "planId" in keys:
        return _of_receipt(data, ids)
    if recorded:
        return _of_record(data, base)
    return _of_request(data, base, overrides)


def _keys(data: bytes) -> set[str]:
    try:
        return set(json.loads(data).keys())
    except (ValueError, AttributeError, RecursionError):
        return set()


def _of_answer(answer: Plan | Refusal, planner: Planner | None = None, cached: int | None = None) -> Ready | Refusal:
    from planner.values.plan import Plan

    if not isinstance(answer, Plan):
        return answer
    return Ready(answer.ids, answer.max_output_tokens, answer.account, answer.receipt, planner, cached)


def _of_record(data: bytes, base: Path | None) -> Ready | Refusal:
    from planner.wire.parse import parse_plan, parse_refusal

    if "maxOutputTokens" not in _keys(data):
        return parse_refusal(data)
    plan = parse_plan(data, base=base)
    check_digest(plan)
    _check_blocked(plan.receipt)
    return _of_answer(plan)


def _records_of(receipt: Receipt) -> Records:
    from planner.bundles.records import Records

    return Records(user_folder(), receipt.bundle_digest or "")


def _check_blocked(receipt: Receipt) -> None:
    """Refuse a plan of a bundle that was blocked after it was written down (X60). Raises bundle_blocked_by_drift."""
    from planner.bundles.records import check_drift

    check_drift(_records_of(receipt))


def _of_receipt(data: bytes, ids: str | None) -> Ready:
    from planner.values.digest import final_input_digest
    from planner.wire.ids_file import MAX_IDS, ids_from_bytes
    from planner.wire.parse import parse_receipt

    receipt = parse_receipt(data)
    account = receipt.account
    if receipt.final_input_digest is None or account is None:
        raise RefusalSignal("invalid-input", "$: is the receipt of a refusal; there is nothing to run")
    if ids is None:
        raise usage("a receipt holds no ids; name their file with --ids")
    found = ids_from_bytes(read_input(ids, MAX_IDS * 4 + 4096), "--ids")
    if receipt.final_input_digest != final_input_digest(receipt.bundle_digest or "", found):
        raise RefusalSignal("invalid-input", "--ids: are not the ids the receipt was sealed over")
    _check_blocked(receipt)
    return Ready(found, account.usable_tokens - len(found), account, receipt)


def _of_request(data: bytes, base: Path | None, overrides: Overrides) -> Ready | Refusal:
    from planner.runtimes.llama_cpp import expected_cached
    from planner.values.plan import Plan
    from planner.wire.parse import parse_request

    request = parse_request(data, base=base)
    planner = planner_for(overrides.bundle or request.model_bundle_id, overrides.engine)
    request = overrides.apply(request, planner.bundle_id)
    answer = planner.plan(request)
    previous, cached = request.previous, None
    if isinstance(answer, Plan) and previous is not None and None not in (previous.ids, previous.generated_ids):
        kv = planner.encoder().bundle.manifest.kv
        # Behind a sliding window a shared beginning may be gone; nothing certain can be said.
        if kv is None or kv.sliding_window is None:
            cached = expected_cached(previous.ids or (), previous.generated_ids or (), answer.ids)
    return _of_answer(answer, planner, cached)
