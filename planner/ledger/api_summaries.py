"""The calls of a Ledger about compaction plans, summaries, receipts and parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from planner.ledger import adoptions, parts, plans, readopt, receipts, rejections, summaries, versions
from planner.ledger.store import Store
from planner.ledger.stored import Active, Checked, Invalidation, Saved, StoredSummary
from planner.values.compaction import CompactionPlan, Rejected, Staleness
from planner.values.summary import SummaryRecord


class Summarising:
    """Calls about what is derived from a conversation; each write is one short transaction of its own (R122)."""

    _store: Store

    def save_plan(self, plan: CompactionPlan, *, replace: bool = False) -> CompactionPlan:
        """Freeze a plan and make it the active one; an unfinished current one is returned again unless `replace`."""
        return plans.save_plan(self._store, plan, replace=replace)

    def active_plan(self, conversation_id: str) -> CompactionPlan | None:
        """Return the active plan, finished or not."""
        return plans.active_plan(self._store, conversation_id)

    def compaction_plan(self, conversation_id: str, plan_id: str) -> CompactionPlan | None:
        """Return any plan that was frozen."""
        return plans.plan_by_id(self._store, conversation_id, plan_id)

    def save_summary(
        self, record: SummaryRecord, plan_id: str, checked: Checked, diagnostics: Mapping[str, Any] | None = None
    ) -> Saved:
        """Store one summary of one run of a plan, current if nothing moved on since it was checked."""
        return summaries.save_summary(self._store, record, plan_id, checked, diagnostics)

    def summaries(self, conversation_id: str, active: Active | None = None) -> tuple[StoredSummary, ...]:
        """Return every version in the order it was written, with where it stands now."""
        return versions.stored_summaries(self._store, conversation_id, active or Active())

    def readopt(self, conversation_id: str, summary_id: str, new_id: str, checked: Checked) -> Saved:
        """Make a new version of this generation out of a stored one that was verified again in full."""
        return readopt.readopt(self._store, conversation_id, summary_id, new_id, checked)

    def adopt_current(self, conversation_id: str, active: Active | None = None) -> int:
        """Record which summaries of older generations and ancestor branches this branch uses; return how many."""
        return adoptions.adopt_current(self._store, conversation_id, active or Active())

    def invalidate(self, conversation_id: str, stale: Iterable[Staleness]) -> int:
        """Record once for each summary that it is no longer current; return how many receipts are new."""
        return versions.invalidate(self._store, conversation_id, stale)

    def invalidations(self, conversation_id: str) -> tuple[Invalidation, ...]:
        """Return every invalidation receipt in the order it was written."""
        return versions.invalidations(self._store, conversation_id)

    def record_rejection(self, conversation_id: str, plan_id: str, run: int, rejected: Rejected) -> int:
        """Record that an answer for a run was turned away; return how often its sources were by now."""
        return rejections.record_rejection(self._store, conversation_id, plan_id, run, rejected)

    def rejections(self, conversation_id: str, source_fingerprint: str) -> int:
        """Return how often answers for these sources were turned away."""
        return rejections.count_rejections(self._store, conversation_id, source_fingerprint)

    def save_receipt(self, conversation_id: str, receipt_json: bytes, *, generation: int) -> None:
        """Store the receipt of a plan of this generation."""
        receipts.save_receipt(self._store, conversation_id, receipt_json, generation=generation)

    def receipt(self, conversation_id: str, plan_id: str) -> bytes | None:
        """Return the receipt of a plan."""
        return receipts.read_receipt(self._store, conversation_id, plan_id)

    def save_observation(
        self,
        conversation_id: str,
        plan_id: str,
        generation: int,
        reported_tokens: int,
        details: Mapping[str, int | str | None] | None = None,
    ) -> None:
        """Store how many tokens a runtime counted for a plan of this generation, and what that came to."""
        receipts.save_observation(self._store, conversation_id, plan_id, generation, reported_tokens, details)

    def put_part(self, conversation_id: str | None, kind: str, data: bytes, key: str | None = None) -> str:
        """Store an original that replay needs and return its key."""
        return parts.put_part(self._store, conversation_id, kind, data, key)

    def part(self, conversation_id: str | None, kind: str, key: str) -> bytes:
        """Return an original. Raises PlannerFault `part_missing:<kind>`."""
        return parts.get_part(self._store, conversation_id, kind, key)
