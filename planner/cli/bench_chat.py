"""The conversation a bundle is measured with: texts of many languages, generated from a seed, the same everywhere."""

from __future__ import annotations

import random

from planner.bundles.typical import samples
from planner.values.request import CurrentRequest, TextItem
from planner.values.turn import Message, Turn

LANGUAGES = ("English", "German", "Russian", "Hindi", "Chinese", "Japanese", "figures", "JSON", "Python")


class Chat:
    """Turns of one chat; each turn's question is the request of the plan before it."""

    def __init__(self, seed: int = 7) -> None:
        """Start a chat whose every text follows from the seed."""
        self._random = random.Random(seed)  # noqa: S311 - texts for a benchmark, nothing secret
        self._words = [
            word for row in samples()["languages"] if row["language"] in LANGUAGES for word in row["text"].split()
        ]
        self._asked = ""
        self.count = 0
        self.policy = (TextItem("rules", self.text(60)),)

    def text(self, words: int) -> str:
        """Return a line of so many words."""
        return " ".join(self._random.choice(self._words) for _ in range(words))

    def question(self) -> CurrentRequest:
        """Return the next question."""
        self._asked = self.text(self._random.randrange(8, 30))
        return CurrentRequest("q", text=self._asked)

    def answered(self) -> Turn:
        """Return the turn of the last question with its answer."""
        number = self.count
        self.count += 1
        messages = (
            Message("user", f"u{number}", self._asked),
            Message("assistant", f"a{number}", self.text(self._random.randrange(20, 80))),
        )
        return Turn(f"t{number}", 10 * number + 1, "completed", messages)
