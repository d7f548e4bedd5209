"""The context window of one plan and what is left of it for the prompt (R34, R38, X3, X4)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens: `total` is shared by prompt and output; `budget` is what the prompt may use.

    overhead      added to every prompt by the runtime itself (R41).
    kept          of the rest, what the runtime takes no prompt in: its own comparison, padding.
    output_limit  most tokens the runtime generates, None: as many as fit.
    min_prefill, multiple  cells a prompt takes at least, and in steps of.

    >>> Window(total=8192, reserved=512, margin=1).budget
    7679
    """

    total: int
    reserved: int
    margin: int
    overhead: int = 0
    kept: int = 0
    output_limit: int | None = None
    min_prefill: int = 0
    multiple: int = 1

    @property
    def budget(self) -> int:
        """Most prompt tokens that leave room for the reserve and the margin; may be negative."""
        return self.total - self.reserved - self.margin - self.overhead - self.kept

    def most_output(self, prompt_tokens: int) -> int:
        """Return how many tokens may be generated after a prompt that fits: the reserve and what is left free.

        >>> Window(100, 10, 0).most_output(60), Window(100, 10, 0, multiple=32).most_output(60)
        (40, 36)
        """
        cells = max(self.min_prefill, -(-prompt_tokens // self.multiple) * self.multiple)
        room = self.total - self.reserved - self.margin - self.overhead - cells
        most = self.reserved + max(0, room)
        return most if self.output_limit is None else min(most, self.output_limit)
