"""What the test support itself promises: without it, no green test of the planner means anything."""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.oracles import account, scan, suffix
from tests.support import cases, conversations, dialogues
from tests.support.dirty import CHANNELS, PLACEMENTS, channels, dirty, full_width
from tests.support.expected import expected
from tests.support.framing import (
    CONCESSIONS,
    assistant,
    call,
    concede,
    measure_traits,
    result,
    user,
)
from tests.support.judge import Judge
from tests.support.reference import ReferenceBundle
from tests.support.twin import Piece

Reference = Callable[[str], ReferenceBundle]
HERE = Path(__file__).resolve().parent


def _digest(text: str) -> tuple[int, str]:
    return len(text), hashlib.sha256(text.encode()).hexdigest()[:12]


_PLANNED_WITH = frozenset({
    "deployed.py", "gguf_families.py", "gguf_reference.py", "growing_plans.py", "mistral_chats.py",
    "portability_table.py", "records.py", "reporting.py", "toy.py", "views.py",
})  # fmt: skip
"""What is planned with or asked, not what judges.

`gguf_reference.py` renders by transformers and takes the ids of our own GGUF tokenizer, which llama.cpp's /tokenize
judges in tests/runtimes/llama.
"""


def test_support_and_oracles_import_nothing_of_the_planner() -> None:
    """A judge that shares code with the planner shares its mistakes."""
    for path in [
        *HERE.glob("*.py"),
        *HERE.parent.joinpath("oracles").glob("*.py"),
        HERE.parent / "conftest.py",
    ]:
        if path.name in _PLANNED_WITH:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            taken = [name for name in names if name.split(".")[0] == "planner"]
            if path.parent.name == "oracles":  # an oracle may speak of the same values, never use the same code
                taken = [name for name in taken if not name.startswith("planner.values.")]
            assert taken == [], path.name


def test_the_generator_is_deterministic_and_covers_what_it_promises(seed: int) -> None:
    """Same seed, same conversations; every feature at least five times in sixty, for any seed."""
    assert conversations.generate(12, seed) == conversations.generate(12, seed)
    assert conversations.generate(12, seed) != conversations.generate(12, seed + 1)
    for number in range(5):
        for tools in (True, False):
            made = conversations.generate(60, seed + number, tools=tools)
            counts = conversations.coverage(made)
            assert min(counts[name] for name in conversations.required_features(tools=tools)) >= 5
            assert {item.shape for item in made} == set(conversations.SHAPES if tools else conversations.PLAIN_SHAPES)


def test_every_generated_string_carries_a_marker_of_its_own(seed: int) -> None:
    """No marker stands in two messages, and no non-empty message lacks one."""
    for item in conversations.generate(24, seed):
        texts = [message["content"] for message in item.messages if message["content"]]
        marks = [{word for word in _words(text) if word.startswith("mk")} for text in texts]
        assert all(marks)
        assert max(Counter(mark for found in marks for mark in found).values()) == 1


def _words(text: str) -> list[str]:
    return "".join(char if char.isascii() and char.isalnum() else " " for char in text).split()


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("channel", CHANNELS)
def test_dirty_chats_differ_from_their_twin_only_where_the_string_was_planted(channel: str, placement: str) -> None:
    """The planted text is there (whole, or in two halves), and its twin has neither."""
    made = dirty("<|im_end|>", channel, placement, text_beside_call=True)
    chat = json.dumps([made.messages, made.tools], ensure_ascii=False)
    twin = json.dumps([made.inert_messages, made.inert_tools], ensure_ascii=False)
    for part in made.halves or (made.literal,):
        assert part in chat
        assert part not in twin
    assert len(chat) == len(twin)
    assert (full_width("<|im_end|>") in chat) == (placement == "full_width")


def test_a_chat_without_tools_has_no_tool_channels() -> None:
    """A channel that is not in the chat is an error, not a test that tests nothing."""
    assert channels(tools=False, reasoning=False) == ("policy", "user", "assistant", "request")
    with pytest.raises(ValueError, match="no such channel"):
        dirty("<x>", "result", tools=False)


def test_case_macros_give_the_published_check_values(shared_dir: Path) -> None:
    """The seven check values of cases/README.md."""
    by_id = {case.id: case for case in cases.load(shared_dir)}
    assert len(by_id) == 20
    assert _digest(cases.expand({"repeat": "ab", "times": 3})) == (6, "36ff120f98d1")
    request, _ = cases.as_chat(by_id["D03"].input)
    assert _digest(request[-1]["content"]) == (2706, "1eb09abe3d00")
    turn = next(turn for turn in by_id["D16"].input["history"] if turn["id"] == "T1")
    tool = next(message for message in turn["messages"] if message["role"] == "tool")
    assert _digest(tool["content"]) == (7497, "d81641b22949")
    third = next(turn for turn in by_id["D20"].input["history"] if turn["id"] == "T3")
    assert _digest(third["messages"][0]["content"]) == (390, "81320f0739f6")
    emoji = by_id["D17"].input["texts_to_count"]["emoji"]
    assert _digest(emoji) == (156, "368890917330")
    turns = by_id["D09"].input["history"]
    assert (len(turns), turns[-1]["sequence"]) == (5, 5)


def test_a_change_of_a_variant_lands_at_its_path(shared_dir: Path) -> None:
    """D13's variants rewrite one field of one summary."""
    case = cases.load(shared_dir, "D13")[0]
    change = next(variant["change"] for variant in case.variants if "change" in variant)
    changed = cases.changed(case.input, change)
    assert changed["summaries"][0]["requiredConstraintIds"] == ["C1", "C2", "C9"]
    assert case.input["summaries"][0]["requiredConstraintIds"] != ["C1", "C2", "C9"]


def test_vocab_and_merges_give_the_ids_of_the_same_model(reference: Reference, seed: int) -> None:
    """qwen3-slow is qwen3-0.6b without tokenizer.json; the class description must agree with that file."""
    fast, slow = reference("qwen3-0.6b"), reference("qwen3-slow")
    for item in conversations.generate(24, seed):
        text = json.dumps(item.messages, ensure_ascii=False) + "<|im_start|>user\n" + item.messages[-1]["content"]
        assert slow.encode(text) == fast.encode(text)


def test_a_lost_piece_is_seen_even_if_its_words_stand_elsewhere(reference: Reference) -> None:
    """gpt-oss renders one of two calls; a search for the name alone would find it in the result."""
    calls = [call("abcdefgh1"), call("abcdefgh2")]
    chat = [
        user("a"),
        assistant("", *calls),
        result("abcdefgh1"),
        result("abcdefgh2"),
        assistant("b"),
        user("c"),
    ]
    verdict = reference("gpt-oss").carries(chat)
    assert [Piece("call", 0, 1, 1)] == list(verdict.missing)
    assert reference("qwen3-0.6b").carries(chat).carried
    assert reference("llama-3.1").carries(chat).raised


def test_serialising_keeps_order_and_pairs() -> None:
    """Each call is followed by its result, in order; a call without a result keeps its place."""
    chat = [
        user("a"),
        assistant("t", call("1"), call("2"), call("3")),
        result("2", "two"),
        result("1", "one"),
    ]
    made = concede(chat, CONCESSIONS)
    assert [item["role"] for item in made.messages] == ["user", *["assistant", "tool"] * 2, "assistant"]
    assert [item.get("content") for item in made.messages] == ["a", "", "one", "", "two", ""]
    assert (made.omitted, made.source) == (["t"], [0, 1, 3, 1, 2, 1])
    texts = [item["content"] for item in concede(chat, ["serialise_parallel_calls"]).messages]
    assert texts == ["a", "t", "one", "", "two", ""]


def test_the_dialogues_are_those_of_the_published_measurement(reference: Reference, shared_dir: Path) -> None:
    """peers.md §5: 66 dialogues, 14 fit whole, 50 must be trimmed, 2 are impossible; 15 in a tool loop."""
    chats = dialogues.load(shared_dir)
    judge = Judge(reference("qwen3-0.6b"), margin=0)
    findings = [judge.find(chat) for chat in chats]
    assert Counter(finding.outcome for finding in findings) == {"clean": 64, "open_turn_overflow": 2}
    assert sum(finding.whole for finding in findings) == 14
    assert sum(chat.messages[-1]["role"] == "tool" for chat in chats) == 15
    assert all(finding.missing > 0 for finding in findings if finding.outcome != "clean")


def test_the_judge_finds_faults_in_wrong_answers(reference: Reference, shared_dir: Path) -> None:
    """A turn too few, a hole, foreign ids: each is named; the right answer has no fault."""
    judge = Judge(reference("qwen3-0.6b"))
    chat = dialogues.load(shared_dir)[1]
    right = judge.find(chat)
    assert right.first
    total = len(chat.turns)
    rung = judge.rung(chat, right.first)
    assert judge.check_answer(chat, range(right.first, total), rung.ids or ()) == []
    fewer = judge.rung(chat, right.first + 1)
    assert any("optimum" in fault for fault in judge.check_answer(
        chat, range(right.first + 1, total), fewer.ids or ()))  # fmt: skip
    assert any("suffix" in fault for fault in judge.check_answer(
        chat, [right.first, *range(right.first + 2, total)], rung.ids or ()))  # fmt: skip
    assert any("ids differ" in fault for fault in judge.check_answer(
        chat, range(right.first, total), (rung.ids or ())[1:]))  # fmt: skip


@pytest.mark.parametrize("name", ["llama-3.1", "mistral-nemo-tekken", "smollm2"])
def test_the_judges_shortcut_equals_measuring_every_rung(reference: Reference, shared_dir: Path, name: str) -> None:
    """Stopping early changes no finding (short dialogues of every kind)."""
    judge = Judge(reference(name))
    chats = [chat for chat in dialogues.load(shared_dir) if len(chat.turns) <= 14][:12]
    for chat in chats:
        assert judge.find(chat) == judge.find(chat, exhaustive=True)


def test_concessions_let_the_real_templates_carry_the_dialogues(reference: Reference, shared_dir: Path) -> None:
    """Without: one of the codes of issue A. With: clean, or the same overflow (a sample of each kind)."""
    chats = dialogues.load(shared_dir)[:40:3]
    for name in ("llama-3.2", "gpt-oss", "mistral-v3-spm"):
        bare, helped = Judge(reference(name)), Judge(reference(name), concessions=CONCESSIONS)
        seen = set()
        for chat in chats:
            finding = bare.find(chat)
            seen.add(finding.outcome)
            assert helped.find(chat).outcome in {"clean", "open_turn_overflow"}
            assert (finding.concession is None) == (finding.outcome in {"clean", "open_turn_overflow"})
        assert seen <= {
            "clean", "open_turn_overflow", "tool_call_shape_not_supported", "template_drops:assistant_text",
        }  # fmt: skip
        assert len(seen) >= 2


def test_expected_ids_are_raw_where_nothing_had_to_change(reference: Reference, seed: int) -> None:
    """qwen3 carries every generated shape; only null content is normalised."""
    bundle = reference("qwen3-0.6b")
    traits = measure_traits(bundle)
    for item in conversations.generate(24, seed):
        answer = expected(bundle, traits, item.messages, item.tools)
        assert answer.ids is not None, item.id
        assert answer.raw == (item.shape != "null_content"), item.id


def test_the_oracles_are_right_on_small_examples() -> None:
    """One worked example each."""
    assert scan.first_fit([9, 4, 3], lambda rung: rung, 4) == 1
    assert scan.first_fit([9], lambda rung: rung, 4) is None
    assert suffix.longest_suffix(5, {0, 4}, len, 3) == [0, 3, 4]
    assert suffix.longest_suffix(5, {0, 4}, len, 1) is None
    fields = {**dict.fromkeys(account.INPUT_FIELDS, 2), "reservedOutputTokens": 4}
    assert account.faults(fields, range(12), margin_tokens=1, input_limit=17) == []
    assert len(account.faults(fields, range(11), margin_tokens=1, input_limit=16)) == 2
    assert account.faults({**fields, "toolTokens": True}, range(12), margin_tokens=1, input_limit=17)
