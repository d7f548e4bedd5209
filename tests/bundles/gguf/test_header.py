"""The header reader: what is written comes back, and every length is refused before it is believed."""

from __future__ import annotations

import random
import struct
import tracemalloc
from pathlib import Path

import pytest

from planner.bundles.gguf_header import HeaderShort, parse_header
from planner.values.reasons import PlannerFault
from tests.bundles.gguf.small import BPE, SPM, bpe_keys
from tests.support.gguf_writer import (
    ARRAY,
    BOOL,
    CODES,
    F16,
    FLOAT32,
    FLOAT64,
    INT64,
    STRING,
    UINT8,
    UINT32,
    UINT64,
    Key,
    Tensor,
    gguf_bytes,
    text,
)

HUGE = (1 << 63, (1 << 64) - 1, 1 << 40, 1 << 32, (1 << 31) + 1)


def parse(data: bytes) -> object:
    """Parse a whole file."""
    return parse_header(data, len(data))


@pytest.mark.parametrize("version", [2, 3])
def test_every_kind_of_value_comes_back(version: int) -> None:
    """Scalars, texts, flags, numeric arrays and texts of the tokenizer; nested arrays are left out."""
    keys = [
        Key("a", UINT8, 7), Key("b", INT64, -5), Key("c", FLOAT64, 0.25), Key("d", BOOL, True),
        Key("e", STRING, "größe"), Key("tokenizer.x", ARRAY, ["a", "", "夜"]), Key("other", ARRAY, ["left out"]),
        *(Key(f"n{kind}", ARRAY, [1, 0, 1], kind) for kind in CODES),
    ]  # fmt: skip
    tensors = [Tensor("one", (3, 2), F16, bytes(12)), Tensor("two", (), F16, bytes(2))]
    data = gguf_bytes(keys, tensors, version=version)
    header = parse_header(data, len(data))
    assert (7, -5, 0.25, True, "größe") == tuple(header.values[name] for name in "abcde")
    assert [b"a", b"", "夜".encode()] == header.texts("tokenizer.x")
    assert "other" not in header.values
    for kind in CODES:
        assert [1, 0, 1] == header.numbers(f"n{kind}")
        assert kind == header.element_kinds[f"n{kind}"]
    assert (version, 2, False) == (header.version, header.tensors, header.cut_short)
    begin = data.index(bytes(12), header.length)
    assert header.length <= begin < header.length + 32


@pytest.mark.parametrize("data", [BPE, SPM])
def test_a_beginning_of_any_length_asks_for_more_or_is_whole(data: bytes) -> None:
    """Never another answer, never the wish for a byte that the file does not have; whole, it ends at the header."""
    whole = parse_header(data, len(data))
    draw = random.Random(3)
    for length in {*range(64), *(draw.randrange(len(data)) for _ in range(300))}:
        with pytest.raises(HeaderShort) as caught:
            parse_header(data[:length], len(data))
        assert length < caught.value.needed <= whole.length
    assert whole == parse_header(data[: whole.length], len(data))


def _head(tensors: int, keys: int, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys)


def _array(kind: int, count: int) -> bytes:
    return text("tokenizer.k") + struct.pack("<IIQ", ARRAY, kind, count)


def _tensor(dimensions: list[int], offset: int = 0) -> bytes:
    return text("t") + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, 0, offset)


def _alignment(kind: int, value: int) -> bytes:
    return gguf_bytes([Key("general.alignment", kind, value)])


HOSTILE = {
    "not a header": b"GGUX" + bytes(40),
    "version 1": _head(0, 0, 1),
    "version 4": _head(0, 0, 4),
    "big-endian": _head(0, 0, 3 << 24),
    **{f"{count} keys": _head(0, count) + bytes(64) for count in (4_097, *HUGE)},
    **{f"{count} tensors": _head(count, 0) + bytes(64) for count in (65_537, *HUGE)},
    **{f"key of {length} bytes": _head(0, 1) + struct.pack("<Q", length) + bytes(64) for length in (1_025, *HUGE)},
    **{f"text of {length} bytes": _head(0, 1) + text("k") + struct.pack("<IQ", STRING, length) for length in HUGE},
    "text above 16 MiB": _head(0, 1) + text("k") + struct.pack("<IQ", STRING, (16 << 20) + 1) + bytes(17 << 20),
    **{
        f"array of {count} of kind {kind}": _head(0, 1) + _array(kind, count) + bytes(64)
        for kind in (UINT8, UINT32, UINT64, STRING, ARRAY) for count in (65, *HUGE)
    },
    "array above 2**22": _head(0, 1) + _array(UINT8, (1 << 22) + 1) + bytes(5 << 20),
    "arrays three deep": _head(0, 1) + _array(ARRAY, 1) + struct.pack("<IQIQ", ARRAY, 1, UINT8, 0),
    "array of no kind": _head(0, 1) + _array(13, 1) + bytes(64),
    "value of no kind": _head(0, 1) + text("k") + struct.pack("<I", 99) + bytes(64),
    "flag that is 2": _head(0, 1) + text("k") + struct.pack("<IB", BOOL, 2),
    "flags that are 2": _head(0, 1) + _array(BOOL, 3) + b"\x00\x01\x02",
    "text no UTF-8": _head(0, 1) + text("k") + struct.pack("<I", STRING) + text(b"\xff"),
    "key no UTF-8": _head(0, 1) + text(b"\xff") + struct.pack("<IB", UINT8, 1),
    "key twice": gguf_bytes([Key("a", UINT8, 1), Key("a", UINT8, 2)]),
    "five dimensions": _head(1, 0) + _tensor([1] * 5),
    "a million dimensions": _head(1, 0) + text("t") + struct.pack("<I", 1_000_000) + bytes(64),
    "elements 2**63": _head(1, 0) + _tensor([1 << 32, 1 << 31]),
    "elements 2**256 wrap to 0": _head(1, 0) + _tensor([1 << 63, 2, 2, 2]),
    "offset 2**63": _head(1, 0) + _tensor([1], 1 << 63),
    **{f"alignment {value}": _alignment(UINT32, value) for value in (0, 3, 48, 1 << 21, (1 << 32) - 1)},
    "alignment of another kind": _alignment(UINT64, 32),
    "alignment as text": gguf_bytes([Key("general.alignment", STRING, "32")]),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_H35_each_broken_bound_is_unsafe_before_anything_is_made(name: str) -> None:
    """Alignment, twice a key, dimensions, counts and lengths: refused, with less than a mebibyte taken."""
    data = HOSTILE[name]
    tracemalloc.start()
    try:
        # What cannot fit is refused where it is stated, not where the bytes end.
        where = "GGUF: an array" if name.startswith("array of ") else "GGUF"
        with pytest.raises(PlannerFault, match=f"bundle_unsafe: {where}"):
            parse_header(data, len(data))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_H34_an_array_of_2_to_the_63_is_unsafe() -> None:
    """The few bytes that made a reader hang: whole, and cut to 43 bytes."""
    data = _head(0, 1) + text("k") + struct.pack("<IIQ", ARRAY, UINT8, 1 << 63)
    for one in (data, data[:43]):
        with pytest.raises(PlannerFault, match="bundle_unsafe"):
            parse_header(one, len(one))


def test_a_header_above_64_mebibytes_is_unsafe_where_it_leaves_them() -> None:
    """Five texts of 15 MiB each are too many together, though none is too long."""
    many = [Key(f"k{number}", STRING, "x" * (15 << 20)) for number in range(5)]
    data = gguf_bytes(many)
    with pytest.raises(PlannerFault, match="beyond 67108864 bytes"):
        parse_header(data, len(data))


def test_limits_are_reached_without_a_fault() -> None:
    """4,096 keys, a name of 1 KiB, 65,536 tensors, four dimensions, the largest alignment."""
    keys = [Key(f"{number:01024d}", UINT8, 1) for number in range(3)]
    keys += [Key(f"k{number}", UINT8, 1) for number in range(4_092)]
    keys.append(Key("general.alignment", UINT32, 1 << 20))
    tensors = [Tensor(f"t{number}", (1, 1, 1, 1), F16, b"") for number in range(65_536)]
    data = gguf_bytes(keys, tensors, alignment=1 << 20)
    assert 65_536 == parse_header(data, len(data)).tensors


def test_a_key_of_another_kind_is_named() -> None:
    """A number where a text belongs, and a flag where a number does."""
    header = parse_header(data := gguf_bytes([Key("a", FLOAT32, 1.5), Key("b", BOOL, True)]), len(data))
    for read in (header.text, header.flag, header.whole, header.texts, header.numbers):
        with pytest.raises(PlannerFault, match="bundle_unsafe: GGUF: a is of another kind"):
            read("a")
    with pytest.raises(PlannerFault, match="b is of another kind"):
        header.whole("b")


def test_weights_that_end_early_are_told_and_not_refused(tmp_path: Path) -> None:
    """Only the place of the last tensor is compared with the file's size."""
    data = gguf_bytes(bpe_keys(), [Tensor("a", (64,), F16, bytes(128)), Tensor("b", (64,), F16, bytes(128))])
    assert not parse_header(data, len(data)).cut_short
    for missing in (128, 200, 256):
        assert parse_header(data[: len(data) - missing], len(data) - missing).cut_short
