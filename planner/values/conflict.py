"""A fact that a summary states as confirmed and a passage contradicts (R155, X54)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two values of one fact key; which of them holds, the planner never decides (R156).

    `citation_id` is the passage that says otherwise, None where the summary's record itself is disputed and no
    admitted passage speaks of the fact.
    """

    summary_id: str
    fact_id: str
    fact_key: str
    citation_id: str | None
    fact_value: str = field(repr=False)
    other_value: str | None = field(default=None, repr=False)

    @property
    def key(self) -> str:
        """The `kind/id` of its explanation in the prompt."""
        return f"conflict/{self.summary_id}:{self.fact_id}"
