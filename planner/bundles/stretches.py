"""Text cut at control strings, and ids cut at control ids: for tokenizers that only know plain stretches."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from planner.encoding.guards import WHITESPACE


class ControlSplitter:
    """Splits text at control strings, leftmost and longest first, as loaders with a split of their own do.

    >>> ControlSplitter({"<s>": 1}).encode("<s>ab", lambda text: [len(text)])
    [1, 2]
    """

    def __init__(self, ids: Mapping[str, int], swallowing: Collection[str] = ()) -> None:
        """Take the ids by text; the `swallowing` ones take the whitespace after them with them."""
        self._swallowing = frozenset(swallowing)
        self._ids = dict(ids)
        self._texts = {index: text for text, index in self._ids.items()}
        ordered = sorted((text for text in self._ids if text), key=lambda text: (-len(text), text))
        self._pattern = re.compile(f"({'|'.join(map(re.escape, ordered))})") if ordered else None

    def cuts(self, text: str) -> bool:
        """Tell whether the text holds a control string."""
        return self._pattern is not None and self._pattern.search(text) is not None

    def encode(self, text: str, encode: Callable[[str], Sequence[int]]) -> list[int]:
        """Return the ids of a text: control strings by look-up, what stands between them by `encode`."""
        if self._pattern is None:
            return list(encode(text)) if text else []
        ids: list[int] = []
        for piece, index, _ in self._pieces(text):
            if index is None:
                ids.extend(encode(piece))
            else:
                ids.append(index)
        return ids

    def _pieces(self, text: str) -> Iterator[tuple[str, int | None, int]]:
        """Yield (stretch, None, length) and (control string, id, length with the whitespace it swallows)."""
        # re.split with one group gives stretches at even places and control strings at odd ones.
        split = self._pattern.split(text) if self._pattern else [text]
        for position, piece in enumerate(split):
            if position % 2:
                after = split[position + 1]
                kept = after.lstrip(WHITESPACE) if piece in self._swallowing else after
                split[position + 1] = kept
                yield piece, self._ids[piece], len(piece) + len(after) - len(kept)
            elif piece:
                yield piece, None, len(piece)

    def encode_ranges(
        self, text: str, encode: Callable[[str], tuple[list[int], list[int], list[int]]]
    ) -> RangedEncoded:
        """Encode as `encode` does; the function given returns ids, begins and ends of a stretch."""
        ids: list[int] = []
        begins: list[int] = []
        ends: list[int] = []
        at = 0
        for piece, index, length in self._pieces(text):
            if index is not None:
                ids.append(index)
                begins.append(at)
                ends.append(at + length)
            else:
                found, first, last = encode(piece)
                ids += found
                begins += [at + begin for begin in first]
                ends += [at + end for end in last]
            at += length
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


class ByteEncoded:
    """The Encoded port over ids whose bytes, put in a row, are the text's own in UTF-8.

    Borders are found among bytes, so that nothing is done for each character: `lengths` gives how many bytes each id
    has, and is asked for where a border is measured.
    """

    __slots__ = ("_data", "_ends", "_lengths", "_text", "ids")

    def __init__(self, ids: list[int], text: str, lengths: Callable[[], Iterable[int]]) -> None:
        """Keep the ids of a text."""
        self.ids = ids
        self._text = text
        self._lengths = lengths
        self._ends: list[int] | None = None
        self._data = b""

    def token_at(self, char: int) -> tuple[int, int]:
        """Return (index, start) of the first token that reaches beyond `char` (see the Encoded port).

        A token that begins inside a letter begins with that letter.
        """
        text, plain = self._text, self._text.isascii()
        if char >= len(text):
            return len(self.ids), char
        ends = self._ends
        if ends is None:
            ends = self._ends = list(accumulate(self._lengths()))
            self._data = b"" if plain else text.encode()
        at = char if plain else len(text[:char].encode())
        index = bisect_right(ends, at) if at else 0
        begin = ends[index - 1] if index else 0
        return index, begin if plain else len(self._data[:begin].decode(errors="ignore"))


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
