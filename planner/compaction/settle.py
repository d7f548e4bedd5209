"""A summary with what the application decided about its facts: built from structure, no text is edited (R153)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from planner.compaction.state_text import state_text
from planner.values.resolution import FactResolution, unsettled
from planner.values.summary import ConfirmedFact, StateEntry, SummaryRecord

_Pair = tuple[StateEntry, ConfirmedFact | None]


def settled(
    record: SummaryRecord, resolutions: Iterable[FactResolution], sequences: Mapping[str, int]
) -> SummaryRecord:
    """Return a record in which every dispute that ended shows its end (R156).

    sequences  message id -> sequence, of the record's sources.
    A fact with the value that stands keeps its sentence. One with another value gives way to the application's own
    sentence, as evidence, because no message of the conversation says it. A decision about a fact that the model left
    out is stated all the same.
    """
    for resolution in tuple(unsettled(record, resolutions, sequences)):
        record = _with(record, resolution, sequences)
    return record


def _with(record: SummaryRecord, resolution: FactResolution, sequences: Mapping[str, int]) -> SummaryRecord:
    decisions, evidence = _pairs(record, "d"), _pairs(record, "e")
    known = ConfirmedFact("", resolution.text, resolution.fact_key)
    own: list[_Pair] = []
    kept: list[list[_Pair]] = []
    for pairs in (decisions, evidence):
        kept.append([])
        for entry, fact in pairs:
            after = fact
            if fact is not None and resolution.governs(fact, sequences):
                after = resolution.settled(fact)
            if fact is not None and after is not None and after.fact_value != fact.fact_value:
                own = own or [(_own_entry(resolution), after)]
            else:
                kept[-1].append((entry, after))
    if not own and all(fact is None or fact.fact_key != resolution.fact_key for _, fact in (*kept[0], *kept[1])):
        own = [(_own_entry(resolution), resolution.settled(known))]
    kept[1] += own
    state = replace(
        record.state, decisions=tuple(entry for entry, _ in kept[0]), evidence=tuple(entry for entry, _ in kept[1])
    )
    facts = tuple(
        replace(fact, id=f"{letter}{place}")
        for letter, pairs in zip("de", kept, strict=True)
        for place, (_, fact) in enumerate(pairs, 1)
        if fact is not None
    )
    return replace(record, state=state, confirmed_facts=facts, summary_text=state_text(state))


def _own_entry(resolution: FactResolution) -> StateEntry:
    return StateEntry(resolution.text, archive_ref=resolution.citation_id)


def _pairs(record: SummaryRecord, letter: str) -> list[_Pair]:
    """Return entries with their facts: d1 is the fact of the first decision, e2 that of the second evidence."""
    facts = {fact.id: fact for fact in record.confirmed_facts}
    entries = record.state.decisions if letter == "d" else record.state.evidence
    return [(entry, facts.get(f"{letter}{place}")) for place, entry in enumerate(entries, 1)]
