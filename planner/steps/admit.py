"""Who may see what, and what is in date: four checks before anything is scored, counted or encoded (R159..R161).

Tenant, dataset and source are compared with the caller's claims, validity with the request's `now`:

- With claims a text must state tenant, dataset and source, and each must be claimed; a missing statement is not
  authorised. Without claims a text that states one of them is not authorised either: nobody claimed it. Where neither
  side states anything there is nothing to compare, and the text is admitted.
- Validity is half open: from `validFrom` on and before `validTo`, a missing end is open. Instants are compared, not
  spellings. A text with a date and a request without `now` is expired: that it is in date cannot be shown.
- The same holds for what old turns, tool results and summaries cite (X39). With claims a cited id that neither
  `citations` nor `passages` describe is not authorised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from planner.values.admission import Admission, Exclusion, ExclusionReason, cited_by
from planner.values.field_rules import instant
from planner.values.passage import Citation, Claims, Passage
from planner.values.request import PlanRequest
from planner.values.turn import Turn

Problem = tuple[ExclusionReason, str]


def admit(request: PlanRequest, cited: Iterable[str] = (), revoked: frozenset[str] = frozenset()) -> Admission:
    """Sort the passages of a request, and find which citations may not be used any more.

    cited    ids that turns and summaries of the conversation cite; looked at only where the request has claims.
    revoked  ids that the caller withdraws beside what the metadata says; their passages are not admitted either.
    """
    now = None if request.now is None else instant(request.now)
    claims = request.claims
    kept: list[Passage] = []
    audit: list[Exclusion] = []
    counts: Counter[str] = Counter()
    described: dict[str, Problem | None] = {}
    for passage in request.passages:
        problem: Problem | None = problem_of(passage, claims, now)
        if problem is None and passage.citation_id in revoked:
            problem = "unauthorised", "caller"
        described[passage.citation_id] = problem
        if problem is None:
            kept.append(passage)
        else:
            counts[problem[0]] += 1
            audit.append(Exclusion(f"passage/{passage.citation_id}", *problem))
    for citation in request.citations:
        found = problem_of(citation, claims, now)
        described[citation.citation_id] = described.get(citation.citation_id) or found
    refused: dict[str, Problem] = dict.fromkeys(revoked, ("unauthorised", "caller"))
    refused |= {name: found for name, found in described.items() if found is not None}
    if claims is not None:
        refused |= {name: ("unauthorised", "metadata") for name in cited if name not in described}
    audit += [Exclusion(f"citation/{name}", *refused[name]) for name in sorted(refused)]
    admitted = request.passages if not counts else tuple(kept)
    return Admission(admitted, dict(sorted(counts.items())), frozenset(refused), tuple(audit))


def admission_of(
    request: PlanRequest, turns: Iterable[Turn], revoked: frozenset[str] = frozenset()
) -> tuple[PlanRequest, Admission]:
    """Return the request without what may not be used, and the admission that says so.

    turns  those of the conversation that cite something, others do no harm; read only where claims are stated.
    """
    if not looks_at_citations(request, revoked):
        return request, Admission()
    summaries = (record.citation_ids for record in request.summaries)
    cited = cited_by(turns, summaries) if request.claims is not None else ()
    admission = admit(request, cited, revoked)
    if admission.passages is request.passages:
        return request, admission
    return replace(request, passages=admission.passages), admission


def looks_at_citations(request: PlanRequest, revoked: frozenset[str] = frozenset()) -> bool:
    """Tell whether admission may exclude what a turn or summary cites; without it no turn is searched."""
    return request.claims is not None or bool(request.citations or request.passages or revoked)


def problem_of(text: Passage | Citation, claims: Claims | None, now: datetime | None) -> Problem | None:
    """Return why a text may not be used, and which statement says so; rights come before dates."""
    if claims is None:
        for name, stated in (("tenant", text.tenant), ("dataset", text.dataset), ("source", text.source)):
            if stated is not None:
                return "unauthorised", name
    else:
        if text.tenant is None or text.tenant != claims.tenant:
            return "unauthorised", "tenant"
        if text.dataset is None or text.dataset not in claims.datasets:
            return "unauthorised", "dataset"
        if text.source is None or text.source.id not in claims.sources:
            return "unauthorised", "source"
    if text.valid_from is None and text.valid_to is None:
        return None
    if now is None:
        return "expired", "now"
    if text.valid_to is not None and now >= instant(text.valid_to):
        return "expired", "validTo"
    if text.valid_from is not None and now < instant(text.valid_from):
        return "not_yet_valid", "validFrom"
    return None
