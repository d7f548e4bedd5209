"""Rules of passages, citations, claims and required evidence: ids, instants, grades (R39, X38, X54, X57)."""

from __future__ import annotations

from typing import Any

from planner.values.field_rules import (
    ID_RULE,
    check_forms,
    instant,
    invalid,
    is_id,
    is_instant,
    is_share,
    is_whole,
    text_problem,
)
from planner.values.passage import Citation, Claims, Passage, Source
from planner.values.request import CurrentRequest

_TUPLE_RULE = "expected a tuple"
_IDS_RULE = "expected ids, each once"


def check_passages(passages: tuple[Passage, ...]) -> None:
    """Check every passage. Raises RefusalSignal `invalid-input`."""
    if type(passages) is not tuple:
        invalid("$.passages", _TUPLE_RULE)
    seen: set[str] = set()
    for index, passage in enumerate(passages):
        if type(passage) is not Passage:
            invalid(f"$.passages[{index}]", "expected a Passage")
        problem = text_problem(passage.text)
        if problem:
            invalid(f"$.passages[{index}].text", problem)
        if passage.short_forms != ():
            check_forms(passage.short_forms, f"$.passages[{index}]")
        if not is_share(passage.relevance):
            invalid(f"$.passages[{index}].relevance", "expected a finite number from 0 to 1")
        _check_origin(passage, seen, "$.passages", index)
        if passage.fact_key is not None or passage.fact_value is not None:
            _check_fact(passage, f"$.passages[{index}]")


def check_citations(citations: tuple[Citation, ...]) -> None:
    """Check what the request says of citations (X39). Raises RefusalSignal `invalid-input`."""
    if type(citations) is not tuple:
        invalid("$.citations", _TUPLE_RULE)
    seen: set[str] = set()
    for index, citation in enumerate(citations):
        if type(citation) is not Citation:
            invalid(f"$.citations[{index}]", "expected a Citation")
        _check_origin(citation, seen, "$.citations", index)


def check_claims(claims: Claims | None) -> None:
    """Check the caller's claims. Raises RefusalSignal `invalid-input`."""
    if claims is None:
        return
    if type(claims) is not Claims:
        invalid("$.claims", "expected a Claims")
    if not is_id(claims.tenant):
        invalid("$.claims.tenant", ID_RULE)
    for name, values in (("datasets", claims.datasets), ("sources", claims.sources)):
        if not _are_ids(values):
            invalid(f"$.claims.{name}", _IDS_RULE)


def check_evidence(current: CurrentRequest) -> None:
    """Check what the answer must cite. Raises RefusalSignal `invalid-input`."""
    if type(current.requires_citation) is not bool:
        invalid("$.request.requiresCitation", "expected true or false")
    if current.high_impact is not None and type(current.high_impact) is not bool:
        invalid("$.request.highImpact", "expected true, false or null")
    if type(current.evidence_groups) is not tuple:
        invalid("$.request.evidenceGroups", _TUPLE_RULE)
    for index, group in enumerate(current.evidence_groups):
        if not _are_ids(group) or not group:
            invalid(f"$.request.evidenceGroups[{index}]", _IDS_RULE)


def _are_ids(values: Any) -> bool:
    return type(values) is tuple and all(map(is_id, values)) and len(set(values)) == len(values)


def _check_origin(text: Passage | Citation, seen: set[str], path: str, index: int) -> None:
    if not is_id(text.citation_id):
        invalid(f"{path}[{index}].citationId", ID_RULE)
    if text.citation_id in seen:
        invalid(f"{path}[{index}].citationId", "is used twice")
    seen.add(text.citation_id)
    for name, value in (("tenant", text.tenant), ("dataset", text.dataset)):
        if value is not None and not is_id(value):
            invalid(f"{path}[{index}].{name}", ID_RULE)
    if text.source is not None:
        _check_source(text.source, f"{path}[{index}].source")
    if text.valid_from is None and text.valid_to is None:
        return
    for name, value in (("validFrom", text.valid_from), ("validTo", text.valid_to)):
        if value is not None and not is_instant(value):
            invalid(f"{path}[{index}].{name}", "expected an RFC 3339 instant with its zone")
    if text.valid_from is not None and text.valid_to is not None and instant(text.valid_from) > instant(text.valid_to):
        invalid(f"{path}[{index}].validTo", "is before validFrom")


def _check_source(source: Source, path: str) -> None:
    if type(source) is not Source:
        invalid(path, "expected a Source")
    if not is_id(source.id):
        invalid(f"{path}.id", ID_RULE)
    if source.grade is not None and not is_whole(source.grade, 1):
        invalid(f"{path}.grade", "expected a whole number, 1 or more")


def _check_fact(passage: Passage, path: str) -> None:
    if not is_id(passage.fact_key):
        invalid(f"{path}.factKey", ID_RULE)
    problem = text_problem(passage.fact_value)
    if problem:
        invalid(f"{path}.factValue", problem)
