"""What an app knows before it plans: fixed cost, room per tier and bounds of any text, per bundle (M6)."""

from __future__ import annotations

from dataclasses import dataclass

from planner.values.text_bound import TextBound


@dataclass(frozen=True, slots=True)
class PartCharge:
    """A part of a tool: what a plan would save without it, in tokens; None where the template refuses it so.

    `path` is inside the declaration's function.
    """

    path: str
    saved_tokens: int | None


@dataclass(frozen=True, slots=True)
class ItemCharge:
    """One rule, schema or tool: `tokens` are its line of the account; `saved_tokens` what a plan without it saves.

    Of a tool `parts` are its description, every parameter and every parameter's description, which is also within
    its parameter. Descriptions of parameters apart, parts and `rest_tokens` add up to `saved_tokens`.
    """

    id: str
    tokens: int
    saved_tokens: int | None
    parts: tuple[PartCharge, ...] = ()
    rest_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class FixedPart:
    """The account of a plan that asks `?` and holds nothing but what every plan holds.

    policy_tokens  rules, scopes and the schema; `items` and framing_tokens add up to input_tokens.
    constraint_tokens  more, where the state block carries every constraint of the policy file.
    proven_tokens  an upper bound of input_tokens by bytes: what the bounds of turns and texts may be added to. None
    where none is proven.
    """

    policy_tokens: int
    tool_tokens: int
    question_tokens: int
    framing_tokens: int
    input_tokens: int
    constraint_tokens: int
    proven_tokens: int | None
    items: tuple[ItemCharge, ...] = ()

    @property
    def fixed_tokens(self) -> int:
        """What every plan pays before it says anything."""
        return self.input_tokens - self.question_tokens + self.constraint_tokens


@dataclass(frozen=True, slots=True)
class TurnFraming:
    """What the template and our blocks write around one more piece, its texts apart; both None where refused.

    measured_tokens  the most that was seen, over texts counted by themselves.
    proven_tokens    an upper bound, to be added to the bounds of the texts.
    """

    kind: str
    measured_tokens: int | None
    proven_tokens: int | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TierRoom:
    """Tokens a tier leaves for question, history and passages; negative where the fixed part is too large.

    `room_tokens` is None and `input_limit` 0 where the tier is refused before anything is counted.
    """

    id: str
    input_limit: int
    reserved_output_tokens: int
    room_tokens: int | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ClassCost:
    """Tokens per character of one class of text: the most of the corpus' samples, and with the margin on it."""

    script: str
    tokens_per_character: float
    with_margin: float


@dataclass(frozen=True, slots=True)
class MeasuredBound:
    """What texts like those of a corpus cost; a text of another kind may cost more."""

    corpus: str
    corpus_digest: str
    margin: float
    classes: tuple[ClassCost, ...] = ()


@dataclass(frozen=True, slots=True)
class BundleBudget:
    """The budget of one bundle; everything holds for `bundle_digest` alone."""

    bundle_id: str
    bundle_digest: str
    fixed: FixedPart
    framing: tuple[TurnFraming, ...]
    tiers: tuple[TierRoom, ...]
    proven: TextBound
    measured: MeasuredBound
