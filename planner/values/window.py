"""The context window of one plan and what is left of it for the prompt (R34, R38, X3, X4)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens: `total` is shared by prompt and output; `budget` is what the prompt may use.

    >>> Window(total=8192, reserved=512, margin=1).budget
    7679
    """

    total: int
    reserved: int
    margin: int

    @property
    def budget(self) -> int:
        """Most prompt tokens that leave room for the reserve and the margin; may be negative."""
        return self.total - self.reserved - self.margin
