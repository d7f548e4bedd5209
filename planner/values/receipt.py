"""The receipt: text-free proof of one planning call (R185, R187)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from planner.values.account import Account

Outcome = str


@dataclass(frozen=True, slots=True)
class Removal:
    """An id or an inclusive range of turn ids that is not in the prompt, with the reason code.

    A range names its first and last turn and how many turns it holds.
    """

    id: str
    reason: str
    last_id: str | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class HistoryReduced:
    """How many turns the prompt leaves out, and as which ranges of sequences (R147).

    `purged_through` is the sequence up to which originals were purged: what stood there can be in no prompt, beside
    what a summary of it says (R146). None where nothing was purged.
    """

    removed: int
    ranges: tuple[tuple[int, int], ...]
    purged_through: int | None = None


@dataclass(frozen=True, slots=True)
class SummaryUse:
    """What became of one summary: `used`, or the code for which it was not, with cause and ids, never text.

    `covers` are the sequences of the first and the last turn it covers, both inclusive.
    """

    id: str
    version: int
    covers: tuple[int, int]
    fate: str
    cause: str | None = None
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prefix:
    """What this prompt shares with the previous one, in tokens, and what ended the common part."""

    previous_plan_id: str | None
    common_tokens: int
    broken_by: str


@dataclass(frozen=True, slots=True)
class ConcessionUse:
    """A named concession and the messages it reshaped."""

    name: str
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dispute:
    """A fact of a current summary that a passage contradicts, by ids; `explained` where the prompt says so (R155)."""

    summary_id: str
    fact_id: str
    fact_key: str
    citation_id: str | None
    explained: bool


@dataclass(frozen=True, slots=True)
class FormUse:
    """A text that stands in the prompt in a shorter form: `json`, `log`, `short_1`, `short_2`, .. or `stub` (X31).

    id        `turn/id` of a tool result, `passage/id` of a passage.
    tokens    of the form alone.
    call_id, sequence  of a result: its call, and the sequence of its message.
    """

    id: str
    form: str
    tokens: int
    call_id: str | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class PartUse:
    """A part of the prompt that is no text: where it stands, and the placeholders it costs by declaration.

    turn_id, message_id  as the request names them; `part_id` is unique in its message.
    """

    turn_id: str
    message_id: str
    part_id: str
    type: Literal["image", "audio"]
    tokens: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """Ids, numbers, reasons and digests of one call; the same for a plan and a refusal. Never text."""

    plan_id: str
    outcome: Outcome
    reason: str | None
    model_bundle_id: str
    bundle_digest: str | None
    request_digest: str | None
    planner_version: str
    conversation_id: str | None = None
    candidate_id: str | None = None
    app_version: str | None = None
    now: str | None = None
    mode: str = "ids"
    template_entry: str | None = None
    template_version: str | None = None
    template_digest: str | None = None
    template_fallback: str | None = None
    slot: str | None = None
    runtime: str = "none"
    runtime_version: str | None = None
    policy_version: str = ""
    generation: int = 0
    revision: int = 0
    account: Account | None = None
    summary_versions: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    removed: tuple[Removal, ...] = ()
    excluded: Mapping[str, int] = field(default_factory=dict)
    disputes: tuple[Dispute, ...] = ()
    summaries: tuple[SummaryUse, ...] = ()
    history_reduced: HistoryReduced | None = None
    forms: tuple[FormUse, ...] = ()
    parts: tuple[PartUse, ...] = ()
    concessions: tuple[ConcessionUse, ...] = ()
    aliased_call_ids: int = 0
    neutralised: int = 0
    hidden_characters: Mapping[str, int] = field(default_factory=dict)
    tool_detail_lost: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    defaults: Mapping[str, int] = field(default_factory=dict)
    final_input_digest: str | None = None
    prefix: Prefix | None = None
    cache_key: str | None = None
    front_tokens: int | None = None
    fresh_tokens: int | None = None
    count_source: Literal["exact", "declared", "counted_by_runtime", "upper_bound"] = "exact"
    item_digests: Mapping[str, str] = field(default_factory=dict)
