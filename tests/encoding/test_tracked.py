"""The string that remembers owners answers as `str` does, and its spans always add up (design.md §4.1)."""

from __future__ import annotations

import operator
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import markupsafe
import pytest

from planner.encoding.tracked import Tracked, concat, join, make, own, spans_of
from planner.encoding.tracked_markup import TrackedMarkup, safe
from planner.values.prompt import Leaf

FIRST = Leaf(item="turn/t1", section="history", kind="user_text", text="first")
SECOND = Leaf(item="turn/t2", section="history", kind="result", text="second")
ALPHABETS: dict[Leaf | None, str] = {FIRST: "abc \n", SECOND: "xyz\t'", None: "012<"}
"""Each owner has characters of its own, so a character tells whose it is."""
OWNER_OF = {char: owner for owner, alphabet in ALPHABETS.items() for char in alphabet}

Arguments = Sequence[tuple[Any, ...]]
CHARS: Arguments = ((), ("a",), ("abx0 ",), (None,), (" \n",))
PARTS: Arguments = ((), (None,), ("a",), ("b ",), ("x", 1), (None, 2), ("zz", 0), ("\n", -1))
ONE: Arguments = (("a",), ("x0",), ("",), ("nowhere",))
WIDTH: Arguments = ((0,), (3,), (40,), (41, "*"))

KEEPING: dict[str, Arguments] = {
    "strip": CHARS, "lstrip": CHARS, "rstrip": CHARS, "removeprefix": ONE, "removesuffix": ONE,
    "split": PARTS, "rsplit": PARTS, "splitlines": ((), (True,), (False,)),
    "partition": (("a",), ("x",), ("nowhere",)), "rpartition": (("a",), ("x",), ("nowhere",)),
    "ljust": WIDTH, "rjust": WIDTH, "center": WIDTH,
}  # fmt: skip
"""Methods whose results are made of characters of the text: each keeps its owner; fills have none."""
CHANGING: dict[str, Arguments] = {
    "replace": (("a", "b"), ("a", ""), ("x", "yy", 1), ("", "-"), ("ab", "Q"), ("nowhere", "Q"), ("a", "b", 0)),
    "lower": ((),), "upper": ((),), "casefold": ((),), "capitalize": ((),), "swapcase": ((),), "title": ((),),
    "translate": (({97: "Z"},), ({120: None},), ({48: "long"},)), "expandtabs": ((), (2,), (0,)),
    "zfill": ((0,), (40,)), "join": ((["p", "q"],), ([],), (["only"],)),
    "format": ((), (1,)), "format_map": (({},),),
}  # fmt: skip
"""Methods that make new characters: only the text and the lengths are fixed."""
ASKING: dict[str, Arguments] = {
    **{name: ((),) for name in dir(str) if name.startswith("is")},
    "count": (("a",), ("",)), "find": (("a",), ("nowhere", 1)), "rfind": (("a",),), "index": (("",),),
    "rindex": (("",),), "startswith": (("a",), (("a", "x"),)), "endswith": (("x",),), "encode": ((),),
}  # fmt: skip
"""Methods that answer with something else than text."""
STATIC = {"maketrans"}


def _texts(seed: int, count: int = 60) -> list[Tracked]:
    """Return tracked strings of up to six runs, the empty one among them."""
    chance = random.Random(seed)
    made = [make("", ())]
    for _ in range(count):
        spans: list[tuple[Leaf | None, int]] = []
        text = ""
        for _ in range(chance.randint(1, 6)):
            owner = chance.choice([FIRST, SECOND, None])
            run = "".join(chance.choices(ALPHABETS[owner], k=chance.randint(1, 5)))
            spans.append((owner, len(run)))
            text += run
        made.append(make(text, tuple(spans)))
    return made


def _plain(text: str) -> str:
    return "".join(["", *str.__iter__(text)])


def _outcome(call: Callable[[], Any]) -> Any:
    """Return a result, or the class of what was raised."""
    try:
        return call()
    except Exception as error:
        return type(error)


def _strings(value: Any) -> list[Tracked]:
    return [value] if isinstance(value, str) else [part for part in value if isinstance(part, str)]


def _assert_owned(value: Any, keeping: bool) -> None:
    for part in _strings(value):
        assert isinstance(part, Tracked)
        assert all(length > 0 for _, length in part.spans)
        assert sum(length for _, length in part.spans) == len(part)
        if keeping:
            owners = [owner for owner, length in part.spans for _ in range(length)]
            # A fill may look like a character of the text; only the other way round is a loss.
            wrong = [
                char for char, owner in zip(_plain(part), owners, strict=True)
                if owner is not OWNER_OF.get(char) and owner is not None
            ]  # fmt: skip
            assert wrong == []


def test_every_public_method_of_str_is_in_a_table() -> None:
    """A method that a new Python brings is not forgotten: it would answer with text that nobody owns."""
    public = {name for name in dir(str) if not name.startswith("_")}
    assert public == set(KEEPING) | set(CHANGING) | set(ASKING) | STATIC


@pytest.mark.parametrize("name", sorted({**KEEPING, **CHANGING, **ASKING}))
def test_a_method_answers_as_str_does(seed: int, name: str) -> None:
    """Same text or same exception, spans that add up, and every kept character with its own owner."""
    arguments = {**KEEPING, **CHANGING, **ASKING}[name]
    for text in _texts(seed):
        for given in arguments:
            plain = _outcome(lambda text=text, given=given: getattr(_plain(text), name)(*given))
            tracked = _outcome(lambda text=text, given=given: getattr(text, name)(*given))
            assert tracked == plain
            assert isinstance(plain, type) == isinstance(tracked, type)
            if name not in ASKING and not isinstance(plain, type):
                _assert_owned(tracked, name in KEEPING)


FILLING = {"ljust", "rjust", "center"}


@pytest.mark.parametrize("name", sorted(set(KEEPING) - FILLING))
def test_kept_characters_keep_their_owner(seed: int, name: str) -> None:
    """No character of content becomes framing on the way."""
    for text in _texts(seed):
        for given in KEEPING[name]:
            for part in _strings(_outcome(lambda text=text, given=given: getattr(text, name)(*given)) or ()):
                owners = [owner for owner, length in part.spans for _ in range(length)]
                assert owners == [OWNER_OF[char] for char in _plain(part)]


@pytest.mark.parametrize("name", sorted(FILLING))
def test_a_fill_has_no_owner_and_takes_none(seed: int, name: str) -> None:
    """What stands between the fills is the text with its own owners."""
    for text in _texts(seed):
        own_owners = [owner for owner, length in text.spans for _ in range(length)]
        for width in (0, 7, 40, 41):
            part = getattr(text, name)(width, "*")
            owners = [owner for owner, length in part.spans for _ in range(length)]
            begin = len(_plain(part)) - len(_plain(part).lstrip("*"))
            assert owners[begin : begin + len(own_owners)] == own_owners
            assert set(owners[:begin] + owners[begin + len(own_owners) :]) <= {None}


SLICES = [slice(None), slice(1, None), slice(None, -1), slice(2, 5), slice(5, 2), slice(None, None, -1),
          slice(1, 9, 2), slice(-3, None)]  # fmt: skip


@pytest.mark.parametrize("key", [0, -1, 2, 99, *SLICES], ids=str)
def test_indexing_answers_as_str_does(seed: int, key: Any) -> None:
    """Every index and slice, and each character with its owner."""
    for text in _texts(seed):
        plain = _outcome(lambda text=text: operator.getitem(_plain(text), key))
        tracked = _outcome(lambda text=text: operator.getitem(text, key))
        assert tracked == plain
        if isinstance(tracked, str):
            owners = [owner for owner, length in tracked.spans for _ in range(length)]
            assert owners == [OWNER_OF[char] for char in plain]


def test_operators_answer_as_str_does(seed: int) -> None:
    """Addition from both sides, repetition, iteration, comparison, hash, truth and str()."""
    texts = _texts(seed, 20)
    for text in texts:
        plain = _plain(text)
        assert (text == plain, hash(text) == hash(plain), len(text), bool(text)) == (
            True, True, len(plain), bool(plain),
        )  # fmt: skip
        assert str(text) is text
        assert repr(text) == repr(plain)
        assert f"{text}" == plain
        assert [*text] == [*plain]
        assert all(char.spans == ((OWNER_OF[char], 1),) for char in text)
        for times in (-1, 0, 1, 3):
            assert text * times == times * text == plain * times
            _assert_owned(text * times, keeping=True)
        for other in (*texts, "0", ""):
            for both, bare in ((text + other, plain + other), (other + text, other + plain)):
                assert both == bare
                _assert_owned(both, keeping=True)
                assert [o for o, n in both.spans for _ in range(n)] == [OWNER_OF[char] for char in bare]
        assert text.__add__(3) is NotImplemented  # type: ignore[operator]
        assert text.__radd__(3) is NotImplemented


def test_joins_keep_owners_of_parts_and_separator(seed: int) -> None:
    """`join`, `concat` and `str.join` on a tracked separator."""
    texts = _texts(seed, 12)
    for separator in ("", "0", *texts[:6]):
        bare = _plain(separator).join(map(_plain, texts))
        assert join(separator, texts) == bare
        _assert_owned(join(separator, texts), keeping=True)
        if isinstance(separator, Tracked):
            assert separator.join(texts) == bare
    assert type(concat(["a", "b"])) is str
    assert concat(["0", texts[1]]) == "0" + texts[1]


def test_an_escape_belongs_to_the_character_it_stands_for() -> None:
    """A single replaced character keeps its owner; a longer text gives way to whoever wrote the new one."""
    text = own(Leaf(item="turn/t1", section="history", kind="call", text="a'b'"))
    owner = text.spans[0][0]
    escaped = text.replace("'", "\\'")
    assert (escaped, escaped.spans) == ("a\\'b\\'", ((owner, 1), (owner, 2), (owner, 1), (owner, 2)))
    assert text.replace("a'", "<x>").spans == ((None, 3), (owner, 2))


@pytest.mark.parametrize("name", sorted({**KEEPING, **CHANGING}))
def test_a_safe_text_answers_as_markupsafe_does(seed: int, name: str) -> None:
    """Same text for every method, and the result escapes what is added to it as markupsafe's does."""
    for text in _texts(seed, 20):
        for given in {**KEEPING, **CHANGING}[name]:
            marked = markupsafe.Markup(_plain(text))
            plain = _outcome(lambda marked=marked, given=given: getattr(marked, name)(*given))
            tracked = _outcome(lambda text=text, given=given: getattr(safe(text), name)(*given))
            if isinstance(plain, type):
                assert tracked is plain
                continue
            assert [*map(str, _strings(tracked))] == [*map(str, _strings(plain))]
            assert [part + "<" for part in _strings(tracked)] == [part + "<" for part in _strings(plain)]
            _assert_owned(tracked, keeping=False)


def test_a_safe_text_escapes_what_is_added_to_it() -> None:
    """From both sides, plain and owned; a safe text is added as it is."""
    owned = own(Leaf(item="turn/t1", section="history", kind="call", text="<b>"))
    mark = safe("<i>")
    assert isinstance(mark, TrackedMarkup)
    assert mark + owned == "<i>&lt;b&gt;"
    assert (mark + owned).spans == ((None, 3), (owned.spans[0][0], 9))
    assert owned + mark == "&lt;b&gt;<i>"
    assert "<" + mark == "&lt;<i>"
    assert mark + safe(owned) == "<i><b>"
    assert safe("%s") % "<" == "&lt;"


def test_spans_of_plain_text_are_framing() -> None:
    """A plain string belongs to nobody."""
    assert spans_of("abc") == ((None, 3),)
    assert spans_of("") == ()
    assert sys.intern("abc") == make("abc", ((FIRST, 3),))
