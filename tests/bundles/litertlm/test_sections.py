"""The reader of header and metadata: what is written comes back, each bound is refused before it is believed."""

from __future__ import annotations

import importlib
import random
import struct
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.litertlm import unpacked
from planner.bundles.litertlm_header import MAX_HEADER_BYTES, Section, parse_header
from planner.bundles.litertlm_meta import Affixes, Metadata, Token, affix_template, parse_metadata
from planner.encoding.template import render_plain, variables
from planner.values.reasons import PlannerFault
from tests.bundles.litertlm.small import FULL, GEMMA_LIKE, PIECES
from tests.support.litertlm_writer import (
    BLOCK,
    GEMMA3,
    METADATA,
    MODEL,
    TOKENIZER_JSON,
    WEIGHTS,
    field,
    litertlm_bytes,
    metadata,
    number,
    packed,
)

SAMPLES = {
    "tiny_own.litertlm": ((1, 7, 0), [(5, 16_384, 16_601), (6, 32_768, 50_256)]),
    "test_hf_tokenizer.litertlm": ((1, 0, 0), [(6, 16_384, 609_288)]),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_sections_of_the_sample_files_are_found(shared_dir: Path, name: str) -> None:
    """Kinds and borders of both files, read off their bytes by hand."""
    version, rows = SAMPLES[name]
    header = parse_header((shared_dir / "formats" / "litertlm" / name).read_bytes())
    assert version == header.version
    assert [Section(*row) for row in rows] == list(header.sections)


def test_the_header_agrees_with_the_official_library(shared_dir: Path) -> None:
    """Every section of every file, walked by the flatbuffers package."""
    flat = pytest.importorskip("flatbuffers", reason="the oracle is not installed")
    types = flat.number_types
    files = [(shared_dir / "formats" / "litertlm" / name).read_bytes() for name in SAMPLES]
    many = litertlm_bytes([(kind % 12, bytes(kind)) for kind in range(200)])
    for data in (*files, FULL, PIECES, many):
        buffer = bytearray(data[32 : struct.unpack_from("<Q", data, 24)[0]])

        def below(table: Any, index: int) -> Any:
            place = table.Offset(4 + 2 * index)
            return flat.table.Table(table.Bytes, table.Indirect(table.Pos + place))

        root = flat.table.Table(buffer, flat.encode.Get(flat.packer.uoffset, buffer, 0))
        listed = below(root, 1)
        offset = listed.Offset(4)
        begin = listed.Vector(offset)
        found = []
        for index in range(listed.VectorLen(offset)):
            row = flat.table.Table(buffer, listed.Indirect(begin + 4 * index))
            spot = [row.Offset(4 + 2 * one) for one in range(4)]
            get = [types.Uint8Flags, types.Uint64Flags, types.Uint64Flags]
            figures = [
                row.Get(one, row.Pos + at) if at else 0 for one, at in zip(get, (spot[3], *spot[1:3]), strict=True)
            ]
            found.append(Section(*figures))
        assert found == list(parse_header(data).sections)


def test_the_metadata_of_the_sample_file_is_read(shared_dir: Path) -> None:
    """Start and stop token, context and template, read off the bytes by hand."""
    data = (shared_dir / "formats" / "litertlm" / "tiny_own.litertlm").read_bytes()
    found = parse_metadata(data[16_384:16_601])
    assert (Token(text="<|endoftext|>"), (Token(text="<|im_end|>"),)) == (found.start, found.stops)
    assert (512, 5, 176) == (found.context_tokens, found.model, len(found.template or ""))


def official(proto: Any) -> Any:
    """Declare the metadata's messages from their field numbers and return the library's class of the outer one."""
    file = proto.descriptor_pb2.FileDescriptorProto(name="oracle.proto", package="oracle", syntax="proto3")
    kinds = {"int32": 5, "string": 9}
    declared = {
        "Ids": [("ids", 1, "int32", 3)],
        "Token": [("token_ids", 1, "Ids", 1), ("token_str", 2, "string", 1)],
        "Affixes": [("prefix", 1, "string", 1), ("suffix", 2, "string", 1)],
        "Prompts": [(role, at, "Affixes", 1) for at, role in enumerate(("user", "model", "system"), 1)],
        "Empty": [],
        "Kind": [(f"kind{at}", at, "Empty", 1) for at in (1, 2, 4, 5)],
        "Metadata": [
            ("start", 1, "Token", 1), ("stops", 2, "Token", 3), ("prompts", 3, "Prompts", 1),
            ("context", 5, "int32", 1), ("kind", 6, "Kind", 1), ("template", 7, "string", 1),
        ],
    }  # fmt: skip
    for name, rows in declared.items():
        message = file.message_type.add(name=name)
        for field_name, at, kind, label in rows:
            made = message.field.add(name=field_name, number=at, label=label, type=kinds.get(kind, 11))
            if kind not in kinds:
                made.type_name = f".oracle.{kind}"
    pool = proto.descriptor_pool.DescriptorPool()
    pool.Add(file)
    return proto.message_factory.GetMessageClass(pool.FindMessageTypeByName("oracle.Metadata"))


def test_metadata_agrees_with_the_official_library(seed: int) -> None:
    """What protobuf writes is read as it was meant: 200 messages of any of the fields that count."""
    proto = pytest.importorskip("google.protobuf", reason="the oracle is not installed")
    for name in ("descriptor_pb2", "descriptor_pool", "message_factory"):
        importlib.import_module(f"google.protobuf.{name}")
    made, draw = official(proto), random.Random(seed)

    def text() -> str:
        return "".join(draw.choice("ab<|>\n é🙂{%}'\\\"") for _ in range(draw.randrange(20)))

    for _ in range(200):
        message, wanted = made(), Metadata()
        if draw.random() < 0.7:
            ids = [draw.randrange(1 << 20) for _ in range(draw.randrange(1, 4))]
            message.start.token_ids.ids.extend(ids)
            wanted = replace(wanted, start=Token(ids=tuple(ids)))
        for _ in range(draw.randrange(3)):
            stop = text()
            message.stops.add().token_str = stop
            wanted = replace(wanted, stops=(*wanted.stops, Token(text=stop)))
        if draw.random() < 0.7:
            around = {role: Affixes(text(), text()) for role in ("user", "model", "system") if draw.random() < 0.8}
            for role, affixes in around.items():
                getattr(message.prompts, role).prefix = affixes.prefix
                getattr(message.prompts, role).suffix = affixes.suffix
            named = {"assistant" if role == "model" else role: affixes for role, affixes in around.items()}
            wanted = replace(wanted, **named)
        context, template, kind = draw.choice([0, 1, 4_096]), text(), draw.choice([0, 1, 2, 4, 5])
        message.context, message.template = context, template
        if kind:
            getattr(message.kind, f"kind{kind}").SetInParent()
        wanted = replace(wanted, context_tokens=context or None, template=template or None, model=kind)
        assert wanted == parse_metadata(message.SerializeToString())


def test_what_a_metadata_section_says_comes_back() -> None:
    """Tokens by ids, packed and not, and by text; affixes, context, kind of model."""
    data = metadata(start=[2], stops=[[1], "<end_of_turn>", []], affixes=GEMMA_LIKE, context=1_280, kind=GEMMA3)
    found = parse_metadata(data)
    assert Metadata(
        Token(ids=(2,)), (Token(ids=(1,)), Token(text="<end_of_turn>"), Token(ids=())),
        *(Affixes(*GEMMA_LIKE[role]) for role in (1, 2, 3)), 1_280, GEMMA3,
    ) == found  # fmt: skip
    assert Metadata() == parse_metadata(b"")
    unpacked_ids = field(1, field(1, field(1, 7) + field(1, 300)))
    assert Token(ids=(7, 300)) == parse_metadata(unpacked_ids).start
    assert parse_metadata(field(5, (1 << 64) - 1)).context_tokens is None


@pytest.mark.parametrize("bad", {
    "field twice": field(5, 7) * 2,
    "template twice": field(7, "a") + field(7, "b"),
    "another kind": field(7, 3),
    "length beyond the end": b"\x3a\x7f" + b"x",
    "not UTF-8": field(7, b"\xff"),
    "endless number": b"\x28" + b"\xff" * 11,
    "template too large": field(7, "x" * ((4 << 20) + 1)),
    "too many fields": field(10, 1) * 65_537,
    "too many stops": metadata(stops=["x"] * 257),
    "a group": b"\x0b",
    "two models": field(6, field(1, b"") + field(5, b"")),
    "an id beyond every vocabulary": metadata(start=[1 << 31]),
}.items(), ids=lambda item: item[0])  # fmt: skip
def test_damaged_metadata_is_unsafe(bad: tuple[str, bytes]) -> None:
    """Doubled fields are refused too: readers differ on which of them counts."""
    with pytest.raises(PlannerFault, match="bundle_unsafe: LiteRT-LM: the metadata section") as caught:
        parse_metadata(bad[1])
    assert caught.value.__cause__ is None


def _with(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


@pytest.mark.parametrize(("name", "data", "code"), [
    ("magic", _with(FULL, 0, b"X"), "bundle_unsafe"),
    ("major version", _with(FULL, 8, struct.pack("<I", 2)), "format_not_supported"),
    ("end before the beginning", _with(FULL, 24, struct.pack("<Q", 32)), "bundle_unsafe"),
    ("end beyond the bound", _with(FULL, 24, struct.pack("<Q", MAX_HEADER_BYTES + 1)), "bundle_unsafe"),
    ("end beyond every file", _with(FULL, 24, b"\xff" * 8), "bundle_unsafe"),
    ("root outside", _with(FULL, 32, b"\xff" * 4), "bundle_unsafe"),
    ("cut", FULL[:60], "bundle_unsafe"),
    ("empty", b"", "bundle_unsafe"),
    ("too many sections", litertlm_bytes([(WEIGHTS, b"")] * 1_025), "bundle_unsafe"),
])  # fmt: skip
def test_damaged_headers_are_refused(name: str, data: bytes, code: str) -> None:
    """Lengths and offsets are compared with the bytes before anything is made of them."""
    with pytest.raises(PlannerFault) as caught:
        parse_header(data)
    assert code == caught.value.code, name


def test_a_section_in_the_header_is_refused() -> None:
    """A section that begins in the header, or ends before it begins, belongs to no honest file."""
    whole = litertlm_bytes([(MODEL, b"12345678")])
    begin = struct.pack("<Q", BLOCK)
    at = whole.index(begin, 32)
    parse_header(whole)
    for bad in (40, BLOCK + 9):
        with pytest.raises(PlannerFault, match="a section ends before it begins, or lies in the header"):
            parse_header(_with(whole, at, struct.pack("<Q", bad)))


def test_a_tokenizer_unpacks_to_the_size_it_states_and_no_further() -> None:
    """A stream that is longer, shorter, cut or followed by bytes is refused; a bomb is never unpacked."""
    text = b'{"a": 1}' * 1_000
    good = packed(text)
    assert text == unpacked(good)
    bomb = zlib.compress(bytes(256 << 20))
    bad = {
        "longer": struct.pack("<Q", len(text) - 1) + good[8:],
        "shorter": struct.pack("<Q", len(text) + 1) + good[8:],
        "cut": good[:-3],
        "followed": good + b"\0",
        "no zlib": good[:8] + b"plain",
        "short": b"\x01",
        "none": struct.pack("<Q", 0) + zlib.compress(b""),
        "bomb": struct.pack("<Q", 1 << 20) + bomb,
        "bomb that says so": struct.pack("<Q", 256 << 20) + bomb,
        "huge": b"\xff" * 8 + good[8:],
    }
    for name, section in bad.items():
        with pytest.raises(PlannerFault, match="bundle_unsafe: LiteRT-LM: the tokenizer"):
            pytest.fail(f"{name}: {len(unpacked(section))} bytes")
    tracemalloc.start()
    try:
        with pytest.raises(PlannerFault):
            unpacked(bad["bomb"])
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_template_made_from_affixes_writes_what_the_runtime_writes() -> None:
    """Prefix, text and suffix of each message, the model's prefix at the end; quotes and backslashes as they are."""
    odd = {1: ('it\'s "a"\\n\n{{ x }}{% y %}', "\\\r\n<e>"), 2: ("<m>\n", "é\u2028🙂'"), 3: ("", "-")}
    source = affix_template(parse_metadata(metadata(affixes=odd)))
    roles = {"user": odd[1], "assistant": odd[2], "system": odd[3]}
    messages = [{"role": role, "content": f" {role} \n"} for role in ("system", "user", "assistant", "user")]
    wanted = "".join(roles[one["role"]][0] + one["content"] + roles[one["role"]][1] for one in messages)
    for header in (False, True):
        values = variables(messages, None, {"add_generation_prompt": header}, {}, None)
        assert wanted + (odd[2][0] if header else "") == render_plain(source, values, 10_000)


def test_numbers_of_the_writer_are_the_wire_formats() -> None:
    """The writer under the tests is right by an example of the format's own description."""
    assert (b"\x96\x01", b"\x00") == (number(150), number(0))
    assert METADATA == 5
    assert TOKENIZER_JSON == 6
