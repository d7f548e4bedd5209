"""One row of the table of codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["refusal", "fault", "removal", "flag", "prefix"]


@dataclass(frozen=True, slots=True)
class Code:
    """One row: `outcome` is the terminal state a refusal reports, its own name unless it shares one."""

    name: str
    kind: Kind
    meaning: str
    remedy: str
    outcome: str = ""
