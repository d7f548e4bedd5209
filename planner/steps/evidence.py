"""What the answer must cite and which facts are disputed: pins among admitted passages (X38, X54, R155..R158)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planner.values.conflict import Conflict
from planner.values.passage import Passage
from planner.values.rank import freshness, grade_of
from planner.values.reasons import RefusalSignal
from planner.values.request import CurrentRequest
from planner.values.rung import Layered
from planner.values.summary import SummaryRecord


def with_evidence(layered: Layered, usable: Sequence[Passage]) -> Layered:
    """Return the layering with its required passages and its disputed facts.

    usable  admitted passages that may be encoded at all, best first.
    Refuses insufficient_evidence where nothing usable supports what must be cited, conflict_unexplained where a
    request of high impact cannot carry the passage that contradicts a fact.
    """
    required = required_passages(layered.request, usable)
    conflicts = disputes(layered.summaries, layered.passages)
    there = {passage.citation_id for passage in usable}
    held = tuple(one for one in conflicts if one.citation_id is None or one.citation_id in there)
    if len(held) < len(conflicts) and layered.request.high_impact is not False:
        lost = next(one for one in conflicts if one not in held)
        raise RefusalSignal("conflict_unexplained", f"fact {lost.fact_key} of summary {lost.summary_id}")
    if not required and not conflicts:
        return layered
    return replace(layered, required=required, conflicts=held, disputed=conflicts)


def required_passages(current: CurrentRequest, usable: Sequence[Passage]) -> frozenset[str]:
    """Return one citation id for each group, its best member; without groups the best passage, where one is required.

    Refuses insufficient_evidence, naming ids of the request's own groups and no others.
    """
    pins: set[str] = set()
    for number, group in enumerate(current.evidence_groups):
        found = next((passage.citation_id for passage in usable if passage.citation_id in group), None)
        if found is None:
            raise RefusalSignal("insufficient_evidence", f"evidence group {number}: none of {', '.join(group)}")
        pins.add(found)
    if current.requires_citation and not pins:
        if not usable:
            raise RefusalSignal("insufficient_evidence", "a citation is required and there is no passage")
        pins.add(usable[0].citation_id)
    return frozenset(pins)


def disputes(summaries: Iterable[SummaryRecord], passages: Sequence[Passage]) -> tuple[Conflict, ...]:
    """Return the facts of current summaries that an authoritative passage contradicts, by structured keys alone.

    Authoritative for a key is the passage whose source has the best grade, of equal ones the freshest; a passage
    without a grade is none. A value the application turned down when it resolved the fact disputes it no more. A fact
    that its record says is disputed stays so without any passage.
    """
    speaking = _authorities(passages)
    out: list[Conflict] = []
    for summary in summaries:
        for fact in summary.confirmed_facts:
            if fact.fact_key is None or fact.fact_value is None:
                continue
            other = speaking.get(fact.fact_key)
            against = other is not None and other.fact_value not in (fact.fact_value, *fact.rejected_values)
            if other is not None and against:
                out.append(Conflict(summary.id, fact.id, fact.fact_key, other.citation_id, fact.fact_value,
                                    other.fact_value))  # fmt: skip
            elif fact.status == "disputed":
                out.append(Conflict(summary.id, fact.id, fact.fact_key, None, fact.fact_value))
    return tuple(out)


def _authorities(passages: Sequence[Passage]) -> dict[str, Passage]:
    found: dict[str, Passage] = {}
    for passage in passages:
        if passage.fact_key is None or passage.source is None or passage.source.grade is None:
            continue
        known = found.get(passage.fact_key)
        if known is None or _rank(passage) < _rank(known):
            found[passage.fact_key] = passage
    return found


def _rank(passage: Passage) -> tuple[int, bool, float, str]:
    return grade_of(passage), *freshness(passage), passage.citation_id
