"""What a report shows of a million cells: sums, a histogram, and as many rows as a person looks at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from planner.values.account import Account
from planner.values.gate import CellResult

MOST_ROWS = 600
MOST_BLOCKED = 400
BUCKETS = 20
SECTIONS = (
    ("policy", "policy_tokens"), ("tools", "tool_tokens"), ("history", "history_tokens"),
    ("retrieval", "retrieval_tokens"), ("request", "request_tokens"), ("framing", "framing_tokens"),
    ("reserve", "reserved_output_tokens"), ("margin", "safety_margin_tokens"), ("free", "headroom_tokens"),
)  # fmt: skip
"""Parts of a limit in the order they are drawn, with the account's field."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One account as shares of its limit: sample, bundle, tier, verdict, and tokens by section."""

    sample_id: str
    family: str
    bundle_id: str
    tier: str
    verdict: str
    outcome: str
    limit: int
    tokens: tuple[int, ...]


@dataclass(slots=True)
class Picture:
    """Collected cell by cell. `left_out` counts rows that are in the results and not in the report."""

    bars: list[Bar] = field(default_factory=list)
    blocked: list[CellResult] = field(default_factory=list)
    headroom: dict[str, list[int]] = field(default_factory=dict)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    left_out: int = 0

    def add(self, result: CellResult) -> None:
        """Take one cell."""
        self.outcomes[result.bundle_id, result.outcome] += 1
        if result.verdict == "block" and len(self.blocked) < MOST_BLOCKED:
            self.blocked.append(replace(result, account=None, receipts=()))
        account = result.account
        if account is None or account.input_limit <= 0:
            return
        counts = self.headroom.setdefault(result.bundle_id, [0] * BUCKETS)
        counts[bucket(account)] += 1
        if len(self.bars) >= MOST_ROWS:
            self.left_out += 1
            return
        tokens = tuple(max(0, getattr(account, name)) for _, name in SECTIONS)
        self.bars.append(
            Bar(result.sample_id, result.family, result.bundle_id, result.tier, result.verdict, result.outcome,
                account.input_limit, tokens)
        )  # fmt: skip


def bucket(account: Account) -> int:
    """Return which twentieth of its limit an account leaves free.

    >>> bucket(Account(0, 0, 0, 0, 0, 0, 0, input_limit=100, headroom_tokens=99))
    19
    """
    share = max(0, account.headroom_tokens) / account.input_limit
    return min(BUCKETS - 1, int(share * BUCKETS))
