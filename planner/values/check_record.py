"""Rules of a summary's fields, whoever hands it in: ids, ranges, texts. Whether it is current is `check_summary`'s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.values.field_rules import ID_RULE, VERSION_RULE, invalid, is_id, is_version, is_whole, text_problem
from planner.values.summary import ConfirmedFact, StateEntry, SummaryRecord, SummaryState

_WHOLE_RULE = "expected a whole number, 0 or more"
_TUPLE_RULE = "expected a tuple"
_STATUSES = (None, "pending", "blocked", "done")
_LISTS = ("decisions", "constraints", "open_actions", "questions", "evidence")


def check_summaries(records: Sequence[SummaryRecord], path: str) -> None:
    """Check every summary of a request. Raises RefusalSignal `invalid-input` with a JSON path below `path`.

    Ids may occur twice here: what then happens is a rule of planning (X47).
    """
    if type(records) is not tuple:
        invalid(path, _TUPLE_RULE)
    for index, record in enumerate(records):
        check_record(record, f"{path}[{index}]")


def check_record(record: SummaryRecord, path: str) -> None:
    """Check one summary; a blank text or an empty list of sources is judged later, as `invalid-summary`."""
    if type(record) is not SummaryRecord:
        invalid(path, "expected a SummaryRecord")
    for name, value, optional in (
        ("id", record.id, False), ("planId", record.plan_id, False),
        ("conversationId", record.conversation_id, False), ("branch", record.branch, False),
        ("summariserBundle", record.summariser_bundle, True),
        ("sourceFingerprint", record.source_fingerprint, False),
        ("protectedFingerprint", record.protected_fingerprint, True),
    ):  # fmt: skip
        if not (is_id(value) or (optional and value is None)):
            invalid(f"{path}.{name}", ID_RULE)
    for name, value in (("policyVersion", record.policy_version), ("strategyVersion", record.strategy_version)):
        if not is_version(value):
            invalid(f"{path}.{name}", VERSION_RULE)
    for name, figure in (
        ("sourceGeneration", record.source_generation), ("sourceRevision", record.source_revision),
        ("coversFrom", record.covers_from), ("coversTo", record.covers_to),
        ("throughSequence", record.through_sequence), ("summaryVersion", record.summary_version),
    ):  # fmt: skip
        if not is_whole(figure):
            invalid(f"{path}.{name}", _WHOLE_RULE)
    if record.covers_to < record.covers_from:
        invalid(f"{path}.coversTo", "is smaller than coversFrom")
    _check_ids(record.source_ids, f"{path}.sourceIds")
    _check_ids(record.required_constraint_ids, f"{path}.requiredConstraintIds")
    _check_ids(record.open_items, f"{path}.openItems")
    _check_ids(record.citation_ids, f"{path}.citationIds")
    versions = record.source_versions
    if type(versions) is not tuple or not all(is_whole(version, 1) for version in versions):
        invalid(f"{path}.sourceVersions", "expected whole numbers, 1 or more")
    _check_text(record.summary_text, f"{path}.summaryText")
    _check_state(record.state, f"{path}.state")
    _check_facts(record.confirmed_facts, f"{path}.confirmedFacts")


def _check_ids(ids: object, path: str) -> None:
    if type(ids) is not tuple or not all(map(is_id, ids)):
        invalid(path, ID_RULE)


def _check_text(text: object, path: str, *, optional: bool = False) -> None:
    if optional and text is None:
        return
    problem = text_problem(text)
    if problem:
        invalid(path, problem)


def _check_state(state: SummaryState, path: str) -> None:
    if type(state) is not SummaryState:
        invalid(path, "expected a SummaryState")
    _check_text(state.goal, f"{path}.goal")
    if state.goal_from is not None and not is_id(state.goal_from):
        invalid(f"{path}.goalFrom", ID_RULE)
    for name, wire in zip(_LISTS, ("decisions", "constraints", "openActions", "questions", "evidence"), strict=True):
        entries: Any = getattr(state, name)
        if type(entries) is not tuple:
            invalid(f"{path}.{wire}", _TUPLE_RULE)
        for index, entry in enumerate(entries):
            _check_entry(entry, f"{path}.{wire}[{index}]")


def _check_entry(entry: StateEntry, path: str) -> None:
    if type(entry) is not StateEntry:
        invalid(path, "expected a StateEntry")
    _check_text(entry.text, f"{path}.text")
    _check_text(entry.excerpt, f"{path}.excerpt", optional=True)
    _check_text(entry.owner, f"{path}.owner", optional=True)
    _check_text(entry.archive_ref, f"{path}.archiveRef", optional=True)
    _check_ids(entry.message_ids, f"{path}.messageIds")
    if entry.id is not None and not is_id(entry.id):
        invalid(f"{path}.id", ID_RULE)
    if entry.status not in _STATUSES:
        invalid(f"{path}.status", "is not one of the states of an item")


def _check_facts(facts: Sequence[ConfirmedFact], path: str) -> None:
    if type(facts) is not tuple:
        invalid(path, _TUPLE_RULE)
    for index, fact in enumerate(facts):
        here = f"{path}[{index}]"
        if type(fact) is not ConfirmedFact:
            invalid(here, "expected a ConfirmedFact")
        for name, value in (("id", fact.id), ("factKey", fact.fact_key), ("confirmationId", fact.confirmation_id)):
            if not is_id(value) and (value is not None or name == "id"):
                invalid(f"{here}.{name}", ID_RULE)
        _check_text(fact.text, f"{here}.text")
        _check_text(fact.fact_value, f"{here}.factValue", optional=True)
        _check_ids(fact.source_ids, f"{here}.sourceIds")
        if type(fact.rejected_values) is not tuple:
            invalid(f"{here}.rejectedValues", _TUPLE_RULE)
        for place, other in enumerate(fact.rejected_values):
            _check_text(other, f"{here}.rejectedValues[{place}]")
        if fact.status not in ("confirmed", "disputed"):
            invalid(f"{here}.status", "is not one of the states of a fact")
