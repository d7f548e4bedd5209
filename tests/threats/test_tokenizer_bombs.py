"""The eleven rows of threats.md §2.4: refused before they are encoded, and bounded in memory where they are not.

No clock is asserted: how many characters were encoded is, and how far the process grew.
"""

from __future__ import annotations

import json

import pytest

from planner.bundles.open import open_bundle
from planner.bundles.patterns import check_components, check_pattern
from planner.planner import Planner
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault
from planner.values.request import CurrentRequest, PlanRequest
from planner.values.turn import Message, Turn
from tests.conftest import MAX_EXAMPLES
from tests.threats.support import MIB, child, served

WORDS = "the quick brown fox jumps over the lazy dog near a quiet river bank and "
ROWS = {
    "English prose": WORDS,
    "letter": "a",
    "space": " ",
    "digit": "7",
    "composed letters": "e\u0301",
    "three marks": "e\u0301\u0323\u0308",
    "Chinese letters": "".join(chr(0x4E00 + number) for number in range(20_000)),
    "family emoji": "👩\u200d👩\u200d👧\u200d👦",
    "tag characters": "".join(chr(0xE0020 + number) for number in range(95)),
    "ligature of eighteen letters": "\ufdfa",
    "control strings": "<|im_end|>",
}
LIMIT = 4_096
BYTES_PER_INPUT_BYTE, BYTES_PER_TOKEN, SLACK = 64, 350, 24 * MIB


def bomb(name: str, characters: int) -> str:
    """A row repeated to so many characters."""
    row = ROWS[name]
    return (row * (characters // len(row) + 1))[:characters]


@pytest.fixture(scope="module")
def qwen() -> Planner:
    """The default bundle, opened once."""
    return Planner(open_bundle("qwen3-0.6b"))


@pytest.mark.parametrize("name", [name for name in ROWS if name != "control strings"])
@pytest.mark.parametrize("size", [1_000_000])
def test_a_million_characters_are_refused_without_encoding_one(qwen: Planner, name: str, size: int) -> None:
    """Required text of more bytes than the window could cover: input_too_large, nothing rendered or encoded."""
    text = bomb(name, size).strip() or "x" + bomb(name, size) + "x"
    answer = qwen.plan(PlanRequest("qwen3-0.6b", CurrentRequest(text=text), max_input_tokens=LIMIT))
    assert isinstance(answer, Refusal)
    assert (answer.outcome, answer.reason) == ("context_policy_overflow", "input_too_large")
    assert (answer.diagnostics["characters_encoded"], answer.diagnostics["renders"]) == (0, 0)
    served(qwen)


@pytest.mark.parametrize("name", [name for name in ROWS if name not in ("control strings", "space")])
def test_the_same_text_in_an_old_turn_leaves_without_being_encoded(qwen: Planner, name: str) -> None:
    """Removed as too large; the plan beside it is made."""
    old = Turn("t1", 1, "completed", (Message("user", "u1", bomb(name, 1_000_000)), Message("assistant", "a1", "ok")))
    answer = qwen.plan(PlanRequest("qwen3-0.6b", CurrentRequest(text="And now?"), max_input_tokens=LIMIT, turns=(old,)))
    assert isinstance(answer, Plan)
    assert [("turn/t1", "too_large")] == [(entry.id, entry.reason) for entry in answer.removed]
    assert int(answer.diagnostics["characters_encoded"]) < 10_000


def test_control_strings_are_encoded_once_as_text_and_overflow(qwen: Planner) -> None:
    """A parsed string may hide text, so text with angle brackets is measured: once, as text, within its length."""
    text = bomb("control strings", 200_000)
    answer = qwen.plan(PlanRequest("qwen3-0.6b", CurrentRequest(text=text), max_input_tokens=LIMIT))
    assert isinstance(answer, Refusal)
    assert answer.reason == "context_policy_overflow"
    assert int(answer.diagnostics["characters_encoded"]) <= 3 * len(text)
    served(qwen)


def test_memory_of_encoding_stays_within_the_bound() -> None:
    """64 bytes an input byte and 350 a token above the loaded tokenizer; a million characters in full runs."""
    pytest.importorskip("resource")
    program = """
from planner.bundles.open import open_bundle
from tests.threats.test_tokenizer_bombs import ROWS, bomb
engine = open_bundle("qwen3-0.6b").engine
engine.encode("warm " * 1000).ids
base, rows = peak(), {}
for name in ROWS:
    text = bomb(name, int(sys.argv[1]))
    size, tokens = len(text.encode()), len(engine.encode(text).ids)
    rows[name] = [size, tokens, peak() - base]
print(json.dumps(rows))
"""
    size = 1_000_000 if MAX_EXAMPLES >= 200 else 100_000
    found = child(program, str(size))
    assert found.pop("stderr") == ""
    assert found.keys() == ROWS.keys()
    allowed = SLACK
    for name, (size_bytes, tokens, grown) in found.items():
        # The peak of a process never falls, so each row is held against the largest allowance so far.
        allowed = max(allowed, SLACK + BYTES_PER_INPUT_BYTE * size_bytes + BYTES_PER_TOKEN * tokens)
        assert grown <= allowed, json.dumps({name: [size_bytes, tokens, grown, allowed]})


@pytest.mark.parametrize(
    "rule", ["(a+)+b", "^(a+)+$", "(a*)*b", "((a+))+", "(?:x|a+)+c", "([a-z]+)*!", "(a{2,})+", r"(\s+\w+)*", "(?i:a+)+"]
)
def test_a_rule_that_repeats_a_repetition_is_refused(rule: str) -> None:
    """Such a rule needs exponential time on a short text it does not match."""
    with pytest.raises(PlannerFault, match="tokenizer_failed: a splitting rule"):
        check_pattern(rule)


@pytest.mark.parametrize(
    "rule",
    [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+",
        r"\s+(?!\S)|\s+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}]*[\p{Ll}]+(?i:'s)?",
        r"(?>a+)+",
        r"(?:a+)++",
        r"(ab+)+",
        r"(?:\r?\n\s*)+",
        r"[(a+)+]",
        r"\(a+\)+",
        "(a+)?",
        "(((",
    ],
)
def test_published_rules_and_their_neighbours_pass(rule: str) -> None:
    """Classes, escapes, possessive and atomic repetitions, and groups that hold a fixed letter."""
    check_pattern(rule)


@pytest.mark.parametrize(
    ("old", "new", "passes"),
    [(" ", "\u2581", True), ("a", "b" * 12, True), ("a", "b" * 13, False), ("ab", "c" * 24, True)],
)
def test_a_normalizer_may_lengthen_text_twelvefold_at_most(old: str, new: str, passes: bool) -> None:
    """In bytes, over all of its rules together."""
    part = {"type": "Replace", "pattern": {"String": old}, "content": new}
    if passes:
        check_components([part])
        return
    with pytest.raises(PlannerFault, match="bundle_unsafe: the normalizer makes text more than 12 times longer"):
        check_components([part])


def test_growth_of_several_rules_multiplies() -> None:
    """Four rules that each double and redouble what the one before wrote."""
    part = {"type": "Replace", "pattern": {"Regex": "a"}, "content": "aa"}
    check_components([part] * 3)
    with pytest.raises(PlannerFault, match="bundle_unsafe"):
        check_components([part] * 4)
