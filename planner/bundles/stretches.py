"""Text cut at control strings, and ids cut at control ids: for tokenizers that only know plain stretches."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence


class ControlSplitter:
    """Splits text at control strings, leftmost and longest first, as loaders with a split of their own do.

    >>> ControlSplitter({"<s>": 1}).encode("<s>ab", lambda text: [len(text)])
    [1, 2]
    """

    def __init__(self, ids: Mapping[str, int]) -> None:
        """Take the ids by text."""
        self._ids = dict(ids)
        self._texts = {index: text for text, index in self._ids.items()}
        ordered = sorted((text for text in self._ids if text), key=lambda text: (-len(text), text))
        self._pattern = re.compile(f"({'|'.join(map(re.escape, ordered))})") if ordered else None

    def encode(self, text: str, encode: Callable[[str], Sequence[int]]) -> list[int]:
        """Return the ids of a text: control strings by look-up, what stands between them by `encode`."""
        if self._pattern is None:
            return list(encode(text)) if text else []
        ids: list[int] = []
        # re.split with one group gives stretches at even places and control strings at odd ones.
        for position, piece in enumerate(self._pattern.split(text)):
            if position % 2:
                ids.append(self._ids[piece])
            elif piece:
                ids.extend(encode(piece))
        return ids

    def encode_ranges(
        self, text: str, encode: Callable[[str], tuple[list[int], list[int], list[int]]]
    ) -> RangedEncoded:
        """Encode as `encode` does; the function given returns ids, begins and ends of a stretch."""
        ids: list[int] = []
        begins: list[int] = []
        ends: list[int] = []
        at = 0
        for position, piece in enumerate(self._pattern.split(text) if self._pattern else [text]):
            if position % 2:
                ids.append(self._ids[piece])
                begins.append(at)
                ends.append(at + len(piece))
            elif piece:
                found, first, last = encode(piece)
                ids += found
                begins += [at + begin for begin in first]
                ends += [at + end for end in last]
            at += len(piece)
        return RangedEncoded(ids, len(text), lambda: (begins, ends))

    def decode(self, ids: Iterable[int], decode: Callable[[list[int]], str]) -> str:
        """Return the text of ids: control strings by look-up, what stands between them by `decode`."""
        pieces: list[str] = []
        stretch: list[int] = []
        for index in ids:
            text = self._texts.get(index)
            if text is None:
                stretch.append(index)
                continue
            if stretch:
                pieces.append(decode(stretch))
                stretch = []
            pieces.append(text)
        if stretch:
            pieces.append(decode(stretch))
        return "".join(pieces)


class RangedEncoded:
    """The Encoded port over ids whose character ranges are computed where a border is measured.

    `ranges` gives (begins, ends) in characters, one pair per id, neither ever falling.
    """

    __slots__ = ("_characters", "_made", "_ranges", "ids")

    def __init__(self, ids: list[int], characters: int, ranges: Callable[[], tuple[list[int], list[int]]]) -> None:
        """Keep the ids of a text of so many characters."""
        self.ids = ids
        self._characters = characters
        self._ranges = ranges
        self._made: tuple[list[int], list[int]] | None = None

    def token_at(self, char: int) -> tuple[int, int]:
        """Return (index, start) of the first token that reaches beyond `char` (see the Encoded port).

        A token without characters, such as a prefix space or all but the last byte of one letter, counts
        to what follows it.
        """
        if char >= self._characters:
            return len(self.ids), char
        if self._made is None:
            self._made = self._ranges()
        begins, ends = self._made
        index = min(bisect_right(ends, char), bisect_left(begins, char))
        return (index, begins[index]) if index < len(self.ids) else (index, char)


def characters_of_bytes(text: str, offsets: Iterable[int], *, upward: bool = False) -> list[int]:
    """Map byte offsets of a text's UTF-8 form to characters; inside a letter, to its start or its end.

    >>> characters_of_bytes("aé", [0, 1, 2, 3]), characters_of_bytes("aé", [0, 1, 2, 3], upward=True)
    ([0, 1, 1, 2], [0, 1, 2, 2])
    """
    if text.isascii():
        return list(offsets)
    starts = [0]
    for letter in text:
        code = ord(letter)
        starts.append(starts[-1] + (1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4))
    if upward:
        return [bisect_left(starts, offset) for offset in offsets]
    return [bisect_right(starts, offset) - 1 for offset in offsets]
