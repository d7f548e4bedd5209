"""The header of a GGUF file: keys, values and tensor names, every length checked before it is believed.

Bounds follow threats.md §2.6. The parser sees bytes and the file's size, never the file: it works on the first
bytes of it, asks for more by `HeaderShort`, and stops before the weights.
"""

from __future__ import annotations

import struct
import sys
from array import array
from dataclasses import dataclass
from typing import TypeVar

from planner.values.reasons import PlannerFault

MAGIC = b"GGUF"
MAX_HEADER_BYTES = 64 << 20
MAX_KEYS = 4_096
MAX_KEY_BYTES = 1_024
MAX_STRING_BYTES = 16 << 20
MAX_ARRAY_ELEMENTS = 1 << 22
MAX_NESTING = 2
MAX_TENSORS = 65_536
MAX_DIMENSIONS = 4
MAX_ALIGNMENT = 1 << 20
DEFAULT_ALIGNMENT = 32

UINT32, BOOL, STRING, ARRAY = 4, 7, 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_FORMATS = {kind: struct.Struct("<" + code) for kind, code in _SCALARS.items()}
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")

T = TypeVar("T")
Scalar = int | float | bool | str
Value = Scalar | list[bytes] | array  # type: ignore[type-arg]


class HeaderShort(Exception):  # noqa: N818 - a request for more bytes, not a fault
    """The bytes end before the header does; at least `needed` bytes of the file are wanted."""

    def __init__(self, needed: int) -> None:
        super().__init__(needed)
        self.needed = needed


@dataclass(frozen=True, slots=True)
class Header:
    """`values` by key: scalars, texts, lists of texts as bytes, numeric arrays. `length` is in bytes;
    `element_kinds` has the kind of each array's elements.

    `cut_short` tells that the file ends before its last tensor begins.

    Arrays of arrays, and text arrays outside `tokenizer.`, are checked and left out.
    """

    version: int
    values: dict[str, Value]
    element_kinds: dict[str, int]
    tensors: int
    length: int
    cut_short: bool

    def text(self, key: str) -> str | None:
        """Return a text, None where the key is absent. Raises bundle_unsafe where it is of another kind."""
        return _checked(self.values.get(key), str, key)

    def flag(self, key: str) -> bool | None:
        """Return true or false, None where the key is absent. Raises bundle_unsafe."""
        return _checked(self.values.get(key), bool, key)

    def whole(self, key: str) -> int | None:
        """Return an integer, None where the key is absent. Raises bundle_unsafe."""
        return _checked(self.values.get(key), int, key)

    def texts(self, key: str) -> list[bytes] | None:
        """Return a list of texts as bytes, None where the key is absent. Raises bundle_unsafe."""
        return _checked(self.values.get(key), list, key)

    def numbers(self, key: str) -> list[int] | list[float] | None:
        """Return a numeric array, None where the key is absent. Raises bundle_unsafe."""
        found = _checked(self.values.get(key), array, key)
        return None if found is None else found.tolist()


def _checked(found: object, wanted: type[T], key: str) -> T | None:
    if found is None:
        return None
    # A flag is an int to Python and another kind of value in the file.
    if type(found) is not wanted:
        raise unsafe(f"{key} is of another kind than a model's")
    return found


def unsafe(detail: str) -> PlannerFault:
    """Return the fault of a header that breaks a bound or is damaged."""
    return PlannerFault("bundle_unsafe", f"GGUF: {detail}")


def parse_header(data: bytes, file_bytes: int) -> Header:
    """Parse the first bytes of a file of `file_bytes` bytes.

    Raises HeaderShort where the header goes on beyond `data`, bundle_unsafe for anything damaged.
    """
    walk = _Walk(data, file_bytes)
    if walk.take(4) != MAGIC:
        raise unsafe("the file does not begin as one")
    version = walk.u32()
    if version not in (2, 3):
        what = "is big-endian" if version in (2 << 24, 3 << 24) else "is of a version other than 2 and 3"
        raise unsafe(f"the file {what}")
    tensors, keys = walk.u64(), walk.u64()
    if tensors > MAX_TENSORS or keys > MAX_KEYS:
        raise unsafe(f"it states more than {MAX_TENSORS} tensors or {MAX_KEYS} keys")
    values: dict[str, Value] = {}
    kinds: dict[str, int] = {}
    for _ in range(keys):
        key = walk.name(MAX_KEY_BYTES, "key")
        if key in kinds:
            raise unsafe("a key stands there twice")
        kinds[key] = walk.u32()
        if kinds[key] == ARRAY:
            walk.element_kinds[key] = walk.peek_u32()
        found = walk.value(kinds[key], keep_texts=key.startswith("tokenizer."))
        if found is not None:
            values[key] = found
    alignment = _alignment(values, kinds)
    last = max((walk.tensor() for _ in range(tensors)), default=0)
    cut_short = tensors > 0 and walk.at + -walk.at % alignment + last >= file_bytes
    return Header(version, values, walk.element_kinds, tensors, walk.at, cut_short)


def _alignment(values: dict[str, Value], kinds: dict[str, int]) -> int:
    alignment = values.get("general.alignment", DEFAULT_ALIGNMENT)
    if kinds.get("general.alignment", UINT32) != UINT32 or not isinstance(alignment, int):
        raise unsafe("general.alignment is no 32-bit number")
    if not 0 < alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
        raise unsafe(f"general.alignment is no power of two up to {MAX_ALIGNMENT}")
    return alignment


class _Walk:
    """A position in the bytes; every step is checked against the file's size first, then against the bytes."""

    def __init__(self, data: bytes, file_bytes: int) -> None:
        self.data = data
        self.at = 0
        self.element_kinds: dict[str, int] = {}
        self._limit = min(file_bytes, MAX_HEADER_BYTES)

    def _reach(self, end: int) -> None:
        if end > self._limit:
            raise unsafe(f"a length leads out of the file or beyond {MAX_HEADER_BYTES} bytes")
        if end > len(self.data):
            raise HeaderShort(end)

    def take(self, count: int) -> bytes:
        end = self.at + count
        self._reach(end)
        found = self.data[self.at : end]
        self.at = end
        return found

    def u32(self) -> int:
        return int(_U32.unpack(self.take(4))[0])

    def peek_u32(self) -> int:
        found = self.u32()
        self.at -= 4
        return found

    def u64(self) -> int:
        return int(_U64.unpack(self.take(8))[0])

    def string(self, limit: int) -> bytes:
        length = self.u64()
        if length > limit:
            raise unsafe(f"a text is longer than {limit} bytes")
        return self.take(length)

    def name(self, limit: int, what: str) -> str:
        try:
            return self.string(limit).decode("utf-8")
        except UnicodeDecodeError:
            raise unsafe(f"the name of a {what} is no UTF-8") from None

    def value(self, kind: int, *, keep_texts: bool) -> Value | None:
        if kind == STRING:
            try:
                return self.string(MAX_STRING_BYTES).decode("utf-8")
            except UnicodeDecodeError:
                raise unsafe("a text is no UTF-8") from None
        if kind == ARRAY:
            return self._array(1, keep_texts=keep_texts)
        form = _FORMATS.get(kind)
        if form is None:
            raise unsafe("a value is of a kind that does not exist")
        found: int | float = form.unpack(self.take(form.size))[0]
        if kind != BOOL:
            return found
        if found > 1:
            raise unsafe("a flag is neither true nor false")
        return bool(found)

    def _array(self, depth: int, *, keep_texts: bool) -> Value | None:
        kind, count = self.u32(), self.u64()
        # The smallest element takes so many bytes; what cannot fit is refused before anything is made.
        least = {STRING: 8, ARRAY: 12}.get(kind) or (_FORMATS[kind].size if kind in _FORMATS else 0)
        if not least:
            raise unsafe("an array is of a kind that does not exist")
        if count > MAX_ARRAY_ELEMENTS or self.at + count * least > self._limit:
            raise unsafe(f"an array has more than {MAX_ARRAY_ELEMENTS} elements or leads out of the file")
        if kind == STRING:
            return self._strings(count, keep=keep_texts)
        if kind == ARRAY:
            if depth >= MAX_NESTING:
                raise unsafe(f"arrays are nested deeper than {MAX_NESTING}")
            for _ in range(count):
                self._array(depth + 1, keep_texts=False)
            return None
        found = array(_SCALARS[kind], self.take(count * least))
        if sys.byteorder == "big":
            found.byteswap()
        if kind == BOOL and count and max(found) > 1:
            raise unsafe("a flag is neither true nor false")
        return found

    def _strings(self, count: int, *, keep: bool) -> list[bytes] | None:
        # One call per element would triple the time of a vocabulary of a quarter of a million texts.
        data, at, size, read = self.data, self.at, len(self.data), _U64.unpack_from
        found: list[bytes] = []
        for _ in range(count):
            start = at + 8
            if start > size:
                self._reach(start)
            length = read(data, at)[0]
            if length > MAX_STRING_BYTES:
                raise unsafe(f"a text is longer than {MAX_STRING_BYTES} bytes")
            at = start + length
            if at > size:
                self._reach(at)
            if keep:
                found.append(data[start:at])
        self.at = at
        return found if keep else None

    def tensor(self) -> int:
        """Return where its weights begin, counted from the first tensor's."""
        self.name(MAX_KEY_BYTES, "tensor")
        dimensions = self.u32()
        if dimensions > MAX_DIMENSIONS:
            raise unsafe(f"a tensor has more than {MAX_DIMENSIONS} dimensions")
        elements = 1
        for _ in range(dimensions):
            elements *= self.u64()
        self.u32()
        begin = self.u64()
        if elements >= 1 << 63 or begin >= 1 << 63:
            raise unsafe("a tensor is larger than any file")
        return begin
