"""The samples of the six families, ten and more each; two of a family stand at the limit to the token (R191)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.values.gate import Family, Sample
from tools.gate_samples.families_evidence import lifecycle, permission_withdrawn, retrieval_conflict
from tools.gate_samples.families_history import old_summary, over_budget, turn_truncation

FAMILIES: dict[Family, Callable[[], Iterator[Sample]]] = {
    "over_budget": over_budget,
    "turn_truncation": turn_truncation,
    "old_summary": old_summary,
    "permission_withdrawn": permission_withdrawn,
    "retrieval_conflict": retrieval_conflict,
    "lifecycle": lifecycle,
}
