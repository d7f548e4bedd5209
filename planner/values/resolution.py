"""How the application ended a dispute about a fact: the only way one ends (R156, X54)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from planner.values.summary import ConfirmedFact, SummaryRecord

Decision = Literal["keep", "replace"]
Resolver = Literal["user", "rule"]


@dataclass(frozen=True, slots=True)
class FactDecision:
    """The application's event `factResolved`: a user or a business rule ended a dispute, not length and not a plan.

    value        `keep`: the value that is turned down; `replace`: the value that stands from now on.
    text         sentence of a new value, in the application's words; absent: key and value.
    citation_id  passage that a new value was taken from.
    """

    fact_key: str
    decision: Decision
    resolved_by: Resolver
    confirmation_id: str
    value: str = field(repr=False)
    text: str | None = field(default=None, repr=False)
    citation_id: str | None = None


@dataclass(frozen=True, slots=True)
class FactResolution:
    """What is in force for one fact key by the application's event `factResolved`.

    confirmation_id   id of the event that decided, such as a click or a run of a rule.
    value, text       the value that stands and its sentence; of `replace` the application's own words.
    rejected_values   every value of the key that was turned down so far.
    source_ids        messages the disputed fact rested on.
    citation_id       the passage that the new value was taken from, where there is one.
    through_sequence  of the conversation's last message when it was decided: what is said later is not governed.
    edited_ids        messages whose words changed since; what rests on one of them is not governed either.
    """

    confirmation_id: str
    fact_key: str
    decision: Decision
    resolved_by: Resolver
    value: str = field(repr=False)
    text: str = field(repr=False)
    rejected_values: tuple[str, ...] = field(repr=False)
    source_ids: tuple[str, ...]
    through_sequence: int
    citation_id: str | None = None
    edited_ids: frozenset[str] = frozenset()
    event: int = 0

    def governs(self, fact: ConfirmedFact, sequences: Mapping[str, int]) -> bool:
        """Tell whether the decision speaks about a fact: nothing the fact rests on was said or changed after it.

        sequences  message id -> sequence of its message, of every source of the fact's summary.
        """
        if fact.fact_key != self.fact_key:
            return False
        return all(
            sequences.get(name, self.through_sequence + 1) <= self.through_sequence and name not in self.edited_ids
            for name in fact.source_ids
        )

    def settled(self, fact: ConfirmedFact) -> ConfirmedFact:
        """Return a governed fact as decided; its text is the application's where the value differs."""
        known = fact.fact_value == self.value
        return replace(
            fact,
            text=fact.text if known else self.text,
            fact_value=self.value,
            source_ids=fact.source_ids if known else (),
            confirmation_id=self.confirmation_id,
            status="confirmed",
            rejected_values=self.rejected_values,
        )

    def concerns(self, record: SummaryRecord) -> bool:
        """Tell whether a summary stands for a message that the disputed fact rested on, unchanged since."""
        return bool(set(self.source_ids).difference(self.edited_ids).intersection(record.source_ids))


def unsettled(
    record: SummaryRecord, resolutions: Iterable[FactResolution], sequences: Mapping[str, int]
) -> Iterator[FactResolution]:
    """Yield the decisions that a summary does not show: a governed fact says otherwise, or nothing speaks of the key.

    sequences  message id -> sequence, at least of the summary's sources.
    """
    for resolution in resolutions:
        facts = [fact for fact in record.confirmed_facts if fact.fact_key == resolution.fact_key]
        governed = [fact for fact in facts if resolution.governs(fact, sequences)]
        if any(resolution.settled(fact) != fact for fact in governed) or (not facts and resolution.concerns(record)):
            yield resolution
