"""The account: where every token of a plan went (R35..R37, X40)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

INPUT_FIELDS = (
    "policy_tokens",
    "tool_tokens",
    "request_tokens",
    "history_tokens",
    "retrieval_tokens",
    "framing_tokens",
)
SEVEN_FIELDS = (*INPUT_FIELDS[:5], "reserved_output_tokens", "framing_tokens")


@dataclass(frozen=True, slots=True)
class Account:
    """Tokens per line. The six input lines add up to the number of ids handed over (R36).

    The second group are parts "of which"; `items` holds the tokens of each `kind/id`. The two runtime lines are
    no ids of ours: what the runtime adds itself (R41), and what of the window it takes no prompt in.
    """

    policy_tokens: int
    tool_tokens: int
    request_tokens: int
    history_tokens: int
    retrieval_tokens: int
    reserved_output_tokens: int
    framing_tokens: int
    schema_tokens: int = 0
    constraint_tokens: int = 0
    summary_tokens: int = 0
    open_turn_tokens: int = 0
    notice_tokens: int = 0
    conflict_tokens: int = 0
    part_tokens: int = 0
    reasoning_reserve_tokens: int = 0
    safety_margin_tokens: int = 0
    runtime_overhead_tokens: int = 0
    runtime_kept_tokens: int = 0
    input_limit: int = 0
    headroom_tokens: int = 0
    items: Mapping[str, int] = field(default_factory=dict)

    @property
    def input_tokens(self) -> int:
        """Sum of the six input lines."""
        return (
            self.policy_tokens
            + self.tool_tokens
            + self.request_tokens
            + self.history_tokens
            + self.retrieval_tokens
            + self.framing_tokens
        )

    @property
    def usable_tokens(self) -> int:
        """What prompt and answer may have together: the limit less the margin and what the runtime takes of it."""
        taken = self.safety_margin_tokens + self.runtime_overhead_tokens + self.runtime_kept_tokens
        return self.input_limit - taken


def account_problem(fields: Mapping[str, object]) -> str | None:
    """Name the first of the seven fields that is absent, null, negative or no integer (R37).

    `fields` maps the wire names (`policyTokens`, ...) to what was read back. A measured 0 is a value.

    >>> account_problem({"policyTokens": 0})
    'toolTokens'
    """
    for name in SEVEN_FIELDS:
        wire_name = wire_field(name)
        value = fields.get(wire_name)
        if type(value) is not int or value < 0:
            return wire_name
    return None


def wire_field(name: str) -> str:
    """Return the camelCase spelling of an account line.

    >>> wire_field("reserved_output_tokens")
    'reservedOutputTokens'
    """
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
