"""What strict JSON refuses and what it takes (threats.md §2.2, §2.8, H22..H24)."""

from __future__ import annotations

import json

import pytest

from planner.values.reasons import RefusalSignal
from planner.values.strict_json import REQUEST_BOUNDS, load_strict

CANARY = "kestrel7391"


def refusal(data: bytes) -> str:
    """Return the detail of the refusal, after looking for the input's words on every road out of it."""
    with pytest.raises(RefusalSignal) as caught:
        load_strict(data)
    error = caught.value
    assert error.reason == "invalid-input"
    assert CANARY not in repr(error.args)
    assert error.__cause__ is None
    assert error.__context__ is None
    assert "\n" not in error.detail
    return error.detail


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (b"", "$: is not JSON at character 0"),
        (b'{"text": "kestrel7391"', "$: is not JSON at character 22"),
        (b'{"text": "kestrel7391\xff"}', "$: is not UTF-8"),
        (b'\xef\xbb\xbf{"text": 1}', "$: begins with a byte order mark"),
        (b'{"text": 1, "text": "kestrel7391"}', "$: repeats a key"),
        (b'{"turns": [{"kestrel7391": 1, "kestrel7391": 2}]}', "$.turns[0]: repeats a key"),
        (b'{"turns": [0, {"kestrel7391": NaN}]}', "$.turns[1].*: NaN and Infinity are no JSON numbers"),
        (b"[-Infinity]", "$[0]: NaN and Infinity are no JSON numbers"),
        (b"[1e999]", "$[0]: is a number too large for a double"),
        (b"1" * 5000, "$: is a whole number of more than 18 digits"),
        (b"[-1234567890123456789]", "$[0]: is a whole number of more than 18 digits"),
        (b'["\\ud800"]', "$[0]: holds a NUL, a lone surrogate or a noncharacter"),
        (b'{"text": "\\u0000"}', "$.text: holds a NUL, a lone surrogate or a noncharacter"),
        (b'{"\\udfff": 1}', "$.*: holds a NUL, a lone surrogate or a noncharacter"),
        ('["\ufdd0"]'.encode(), "$[0]: holds a NUL, a lone surrogate or a noncharacter"),
        ('["\ufffe"]'.encode(), "$[0]: holds a NUL, a lone surrogate or a noncharacter"),
        ('["\U0010ffff"]'.encode(), "$[0]: holds a NUL, a lone surrogate or a noncharacter"),
        (b"[" * 100_000 + b"]" * 100_000, "$: is nested deeper than 32 levels"),
        (b"[" * 33 + b"]" * 33, "$: is nested deeper than 32 levels"),
        (b'{"text": "' + b"a" * (1024 * 1024 + 1) + b'"}', "$.text: is a string of more than 1048576 bytes"),
        (b'{"messages": [' + b"0," * 20_000 + b"0]}", "$.messages: has more than 20000 items"),
        (b'{"previous": {"ids": [' + b"0," * 20_000 + b'""]}}', "$.previous.ids: has more than 20000 items"),
        (b"{" + b",".join(b'"%d":0' % n for n in range(20_001)) + b"}", "$: has more than 20000 fields"),
        (b" " * (4 * 1024 * 1024) + b"1", "$: is larger than 4194304 bytes"),
    ],
)
def test_hostile_json_is_refused_by_place(data: bytes, detail: str) -> None:
    """Each is one clear line with a path of our own names, whatever the standard parser would do."""
    assert detail == refusal(data)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 32 + b"]" * 32,
        b"[-123456789012345678, 1e308, 0.5]",
        b'["\\ud83d\\ude00", "\xf0\x9f\x98\x80", "\\u00e9"]',
        '["\ufdfa\ufeff\u200d\U000e0041"]'.encode(),
        b'{"text": "' + b"a" * (1024 * 1024) + b'"}',
        b'{"previous": {"ids": [' + b"0," * 300_000 + b"0]}}",
    ],
)
def test_the_nearest_legal_neighbours_are_taken(data: bytes) -> None:
    """The bounds themselves, real emoji and hidden characters are input like any other."""
    assert json.loads(data) == load_strict(data)


def test_bounds_are_the_published_ones() -> None:
    """4 MiB a request, 1 MiB a string, 20,000 items a list."""
    assert (
        REQUEST_BOUNDS.total_bytes,
        REQUEST_BOUNDS.field_bytes,
        REQUEST_BOUNDS.list_items,
    ) == (4 * 2**20, 2**20, 20_000)
