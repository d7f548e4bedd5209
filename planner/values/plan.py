"""The two answers: a plan or a refusal. There is no third (design.md §1)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.values.account import Account
from planner.values.admission import Exclusion
from planner.values.receipt import Receipt, Removal

OFF_THE_WIRE: Mapping[str, bool] = {"wire": False}
"""Metadata of a field that is never written."""


@dataclass(frozen=True, slots=True)
class PlanFileItem:
    """One line of the plan file (R197)."""

    id: str
    layer: str
    tokens: int
    sequence: int | None = None
    constraint_ids: tuple[str, ...] = ()


FileItem = tuple[str, str, int | None]
"""An item's `kind/id`, its layer as the plan file writes it, and its sequence where it has one."""


@dataclass(frozen=True, slots=True)
class PlanFile:
    """What the structural gate reads: ids and numbers, no text; the limit is written less the margin."""

    max_input_tokens: int
    reserved_output_tokens: int
    generation: int
    required_policy_ids: tuple[str, ...]
    required_constraint_ids: tuple[str, ...]
    items: tuple[PlanFileItem, ...]
    removed_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompactionAdvice:
    """Compaction is due: how full the usable input is, in tokens, and what it would cover (R169, X27).

    `covers` are the sequences of the first and last turn of each run, `risk` is the request's, absent counts as high.
    """

    input_tokens: int
    threshold_tokens: int
    covers: tuple[tuple[int, int], ...]
    risk: Literal["low", "high"] = "high"


@dataclass(frozen=True, slots=True)
class Advice:
    """What would help, as data: tiers that would fit, what could be dropped, a concession to allow.

    tiers      approved and valid ones in which the same request is planned.
    droppable  the fewest tools and preferences the caller could leave out so that it fits; empty where none are enough.

    `compaction` is there once per crossing of its threshold; `advice_fired` is what the next request says as
    `previous.adviceFired` (R169).
    """

    tiers: tuple[str, ...] = ()
    droppable: tuple[str, ...] = ()
    concession: str | None = None
    notes: tuple[str, ...] = ()
    compaction: CompactionAdvice | None = None
    advice_fired: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """An accepted plan. `ids` is what the runtime gets, unchanged (R43).

    `prompt` is the text of the ids: always there from `Planner.plan`, None where a conversation, one of a ledger too,
    put the ids of turns together without rendering the whole; its first plan may do so. `constraint_ids` are the live
    constraints, `carriers` the kept items that carry them, each with the ids it carries. `audit` names what was
    excluded, for a record apart: it is in no receipt and in no JSON of a plan.
    """

    ids: array[int] = field(repr=False)
    account: Account
    receipt: Receipt = field(repr=False)
    kept: tuple[str, ...] = field(repr=False)
    removed: tuple[Removal, ...]
    max_output_tokens: int
    advice: Advice = Advice()
    prompt: str | None = field(default=None, repr=False)
    messages: tuple[Mapping[str, Any], ...] | None = field(default=None, repr=False)
    spans: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    diagnostics: Mapping[str, int | str] = field(default_factory=dict, repr=False)
    file_items: tuple[FileItem, ...] = field(default=(), repr=False)
    constraint_ids: tuple[str, ...] = ()
    carriers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    audit: tuple[Exclusion, ...] = field(default=(), repr=False, compare=False, metadata=OFF_THE_WIRE)

    @property
    def accepted(self) -> bool:
        """Always true: lets a caller branch without an isinstance check."""
        return True

    def remaining(self, generated_tokens: int) -> int:
        """Return how many tokens may still be generated, for a caller that counts while it streams.

        Raises ValueError for a count that is no whole number.
        """
        if type(generated_tokens) is not int or generated_tokens < 0:
            raise ValueError("expected a whole number of tokens")
        return max(0, self.max_output_tokens - generated_tokens)

    @property
    def plan_file(self) -> PlanFile:
        """The plan as the structural gate reads it; items and reserve add up to the real prompt (R197, X23)."""
        account, carried = self.account, dict(self.carriers)
        items = [
            PlanFileItem(key, layer, account.items.get(key, 0), sequence, carried.get(key, ()))
            for key, layer, sequence in self.file_items
        ]
        items.append(PlanFileItem("framing/framing", "framing", account.framing_tokens))
        ends = [key for entry in self.removed for key in (entry.id, entry.last_id) if key is not None]
        return PlanFile(
            max_input_tokens=account.usable_tokens,
            reserved_output_tokens=account.reserved_output_tokens,
            generation=self.receipt.generation,
            required_policy_ids=tuple(key for key in self.kept if key.startswith(("policy/", "scope/"))),
            required_constraint_ids=self.constraint_ids,
            items=tuple(items),
            removed_ids=tuple(dict.fromkeys(ends)),
        )

    def numpy(self) -> Any:
        """Return the ids as a read-only numpy view without copying; numpy is imported here, not before."""
        import numpy as np

        view = np.frombuffer(self.ids, dtype=np.int32)
        view.flags.writeable = False
        return view


@dataclass(frozen=True, slots=True)
class Refusal:
    """A typed answer that no prompt can be made; it never carries ids (R184).

    `tokens_missing` says by how much the budget falls short, 0 where size is not the problem. `audit` is as in `Plan`.
    """

    outcome: str
    reason: str
    detail: str
    receipt: Receipt = field(repr=False)
    account: Account | None = None
    tokens_missing: int = 0
    advice: Advice = Advice()
    diagnostics: Mapping[str, int | str] = field(default_factory=dict, repr=False)
    audit: tuple[Exclusion, ...] = field(default=(), repr=False, compare=False, metadata=OFF_THE_WIRE)

    @property
    def accepted(self) -> bool:
        """Always false."""
        return False

    def line(self) -> str:
        """Return the one line the command prints (design.md §9)."""
        detail = self.detail if self.reason == self.outcome else f"{self.reason}: {self.detail}"
        return f"context plan rejected: {self.outcome}: {detail}"
