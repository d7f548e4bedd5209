"""Every planned id equals the reference's: transformers' render, the bundle's own tokenizer file (issue A).

PLANNER_MAX_EXAMPLES sets the number of conversations per bundle: 60 by default, 500 in the full run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import lru_cache

import pytest

from planner.encoding.encoder import AUDIT_EVERY
from planner.planner import Planner
from tests.parity.conftest import SHIPPED, Opened
from tests.parity.outcomes import TABLES, Comparison, changes_made
from tests.support import conversations
from tests.support.conversations import Conversation
from tests.support.framing import measure_traits

EXAMPLES = int(os.environ.get("PLANNER_MAX_EXAMPLES", "60"))
FOLDERS = (
    "deepseek-v3", "gemma-3", "gpt-oss", "llama-2-spm", "llama-3.1", "llama-3.2", "mistral-nemo-tekken",
    "mistral-v1-fast", "mistral-v1-spm", "mistral-v3-spm", "phi-3-mini", "qwen3-0.6b", "qwen3-slow",
    "smollm2",
)  # fmt: skip
BUNDLES = (*SHIPPED, *FOLDERS)


@lru_cache(maxsize=2)
def _made(seed: int, tools: bool, total: int) -> list[Conversation]:
    return conversations.generate(total, seed, tools=tools)


def _conversations(comparison: Comparison, seed: int) -> list[Conversation]:
    """Choose what the template can carry; the others also see each shape with tools once."""
    if comparison.carries_tools:
        return _made(seed, True, EXAMPLES)
    plain = _made(seed, False, EXAMPLES)
    return plain + _made(seed, True, len(conversations.SHAPES))


def test_every_folder_with_a_template_is_compared(template_bundles: list[str]) -> None:
    """A folder added to the shared data is not forgotten here."""
    assert sorted(FOLDERS) == template_bundles


@pytest.mark.parametrize("name", BUNDLES)
def test_R43_ids_equal_the_reference_for_every_conversation(
    opened: Callable[[str], Opened], seed: int, name: str
) -> None:
    """No id differs, no list is refused that the reference renders whole, no loss passes unnoticed.

    Where the reference raises or loses a piece the refusal has the right code, turn and concession; with
    concessions allowed the ids are those of the conceded list.
    """
    comparison = Comparison(*opened(name))
    items = _conversations(comparison, seed)
    for item in items:
        comparison.compare(item)
    out = comparison.out
    TABLES[name] = out.lines()
    assert out.faults == []
    first_answers = [count for key, count in out.table.items() if "with concessions" not in key[1]]
    assert sum(first_answers) == len(items)
    assert 2 * out.compared > len(items)
    assert out.raw > 0
    wrong = {key: count for key, count in out.table.items() if key[1].startswith("WRONG")}
    assert wrong == {}


@pytest.mark.parametrize("name", BUNDLES)
def test_each_normalisation_is_listed_with_its_render_before_and_after(
    opened: Callable[[str], Opened], seed: int, name: str
) -> None:
    """What was changed in a list before rendering is in the profile, and the change shows in its example."""
    bundle, reference = opened(name)
    comparison = Comparison(bundle, reference)
    listed = {entry.name: entry for entry in bundle.profile.normalisations}
    traits = measure_traits(reference)
    needed: set[str] = set()
    if comparison.carries_tools:
        for item in _made(seed, True, len(conversations.SHAPES)):
            needed |= changes_made(item.messages, traits, ())
    if bundle.profile.null_content == "empty":
        needed.discard("null_content")
    assert needed - {"reasoning"} <= set(listed)
    for entry in listed.values():
        assert entry.after
        assert entry.before != entry.after


@pytest.mark.parametrize("name", ["@qwen3-0.6b", "@reference", "gpt-oss"])
def test_the_same_conversation_planned_twice_gives_the_same_bytes(
    opened: Callable[[str], Opened], seed: int, name: str
) -> None:
    """R44: caches of the first plan change nothing in the second, and neither does a planner of its own."""
    bundle, _ = opened(name)
    once, again = Planner(bundle), Planner(bundle)
    for item in _made(seed, True, EXAMPLES)[:12]:
        first, second, third = (
            planner.plan(messages=item.messages, tools=list(item.tools) or None, max_input_tokens=200_000)
            for planner in (once, once, again)
        )
        assert first.accepted == second.accepted == third.accepted
        assert first.receipt == second.receipt == third.receipt
        if first.accepted:
            assert bytes(first.ids) == bytes(second.ids) == bytes(third.ids)


@pytest.mark.parametrize("name", BUNDLES)
def test_a_repeated_question_is_planned_every_time(opened: Callable[[str], Opened], name: str) -> None:
    """The published Nemo template prints the tools at every message equal to the last; no audit takes that amiss."""
    bundle, reference = opened(name)
    chat: list[dict[str, object]] = [
        {"role": role, "content": text}
        for text in ("yes", "go on", "yes") for role in ("user", "assistant")
    ][:-1]  # fmt: skip
    tools = [conversations.Writer(random.Random(1), "1").tool()] if bundle.profile.tools == "kept" else None
    right = reference.ids(chat, tools)
    planner = Planner(bundle)
    for _ in range(AUDIT_EVERY + 1):
        plan = planner.plan(messages=chat, tools=tools, max_input_tokens=8_000)
        assert plan.accepted, plan.line()  # type: ignore[union-attr]
        assert right == list(plan.ids)  # type: ignore[union-attr]


WORDS = ("a", "1", "I", "user", "assistant", "im_start", ".")


def _with_word(word: str) -> list[Conversation]:
    """Small chats that say nothing but one word in the one place a template may lose."""

    def call(number: int, name: str = "zqk") -> dict[str, object]:
        return {"id": f"abcdefgh{number}", "type": "function", "function": {"name": name, "arguments": {}}}

    def result(number: int, text: str = "it went well") -> dict[str, object]:
        return {"role": "tool", "tool_call_id": f"abcdefgh{number}", "content": text}

    def calling(text: str, *calls: object) -> dict[str, object]:
        return {"role": "assistant", "content": text, "tool_calls": list(calls)}

    question, answer = {"role": "user", "content": "hello there"}, {"role": "assistant", "content": "done"}
    name = word if word.replace("_", "").isalnum() else "zqk"
    middles = {
        "call": [calling("", call(1, name)), result(1)],
        "parallel": [calling("", call(1), call(2, name)), result(1), result(2)],
        "text_beside_call": [calling(word, call(1)), result(1)],
        "result": [calling("", call(1)), result(1, word)],
    }
    chats = {name: (question, *middle, answer, {"role": "user", "content": "bye"}) for name, middle in middles.items()}
    chats["open_loop"] = ({"role": "system", "content": word}, question, *middles["result"])
    return [Conversation(f"{shape}-{word}", shape, messages, (), frozenset()) for shape, messages in chats.items()]


@pytest.mark.parametrize("name", ["smollm2", "gpt-oss", "llama-3.1", "mistral-nemo-tekken", "phi-3-mini"])
def test_a_lost_word_is_not_found_again_in_the_frame(opened: Callable[[str], Opened], name: str) -> None:
    """A dropped call `a` is not in the prompt because `assistant` is; numbers that lose their owner are."""
    comparison = Comparison(*opened(name))
    for word in WORDS:
        for item in _with_word(word):
            comparison.compare(item)
    assert comparison.out.faults == []


def _corner_lists() -> dict[str, list[dict[str, object]]]:
    """Lists that real agents send and the generator does not: numbers, empty parts, greetings, broken JSON."""

    def call(call_id: str, arguments: object) -> dict[str, object]:
        return {"id": call_id, "type": "function", "function": {"name": "look_up", "arguments": arguments}}

    def say(role: str, content: str | None, **more: object) -> dict[str, object]:
        return {"role": role, "content": content, **more}

    def result(call_id: str, content: str) -> dict[str, object]:
        return say("tool", content, tool_call_id=call_id)

    begin = [say("system", "policy mk1"), say("user", "question mk2")]
    end = [say("assistant", "answer mk3"), say("user", "question mk4")]
    calling = {
        "number_result": [say("assistant", "", tool_calls=[call("c1", {})]), result("c1", "255.0")],
        "whole_number_result": [say("assistant", "", tool_calls=[call("c1", {"n": 7})]), result("c1", "12")],
        "json_result": [say("assistant", "", tool_calls=[call("c1", {"a": None, "b": [1, True]})]),
                        result("c1", '[{"k": 1.50, "\\u00e9": "mk5"}, null]')],
        "null_result": [say("assistant", "", tool_calls=[call("c1", '{"q": "mk6"}')]), result("c1", "null")],
        "quoted_result": [say("assistant", "", tool_calls=[call("c1", "{}")]), result("c1", '"mk7 \\"x\\""')],
        "odd_arguments": [say("assistant", "", tool_calls=[call("c1", '{ "a" :  1.50 }')]), result("c1", "mk8")],
        "nested_arguments": [say("assistant", "", tool_calls=[call("c1", {"a": {"b": ["mk9", {"c": "mk10"}]}})]),
                             result("c1", "mk11 <b>&amp;</b> 'x' \"y\"")],
        "text_and_thought": [say("assistant", "text mk12", reasoning_content="thought mk13",
                                 tool_calls=[call("c1", {"q": "mk14"})]), result("c1", "mk15")],
        "two_loops": [say("assistant", "", tool_calls=[call("c1", {"q": "mk16"})]), result("c1", "mk17"),
                      say("assistant", "", tool_calls=[call("c2", {"q": "mk18"})]), result("c2", "mk19")],
    }  # fmt: skip
    lists = {name: [*begin, *middle, *end] for name, middle in calling.items()}
    lists |= {f"open_{name}": [*begin, *middle] for name, middle in calling.items()}
    lists["waiting_call"] = [*begin, *end, say("assistant", "", tool_calls=[call("c1", {"q": "mk20"})])]
    lists["greeting"] = [say("system", "policy mk21"), say("assistant", "welcome mk22"), say("user", "mk23")]
    lists["no_policy"] = [say("user", "mk24"), say("assistant", "mk25"), say("user", "mk26")]
    lists["empty_answer"] = [*begin, say("assistant", ""), say("user", "mk27")]
    lists["two_answers"] = [*begin, say("assistant", "mk28"), say("assistant", "mk29"), say("user", "mk30")]
    lists["three_questions"] = [*begin, say("user", "mk31"), say("user", "mk32")]
    lists["spaces_at_ends"] = [*begin, say("assistant", " mk33  "), say("user", "  mk34 \n")]
    return lists


@pytest.mark.parametrize("name", BUNDLES)
def test_corner_shapes_are_planned_as_the_reference_renders_them(opened: Callable[[str], Opened], name: str) -> None:
    """Same rule as for generated conversations: same ids, or the right refusal."""
    comparison = Comparison(*opened(name))
    for shape, messages in _corner_lists().items():
        comparison.compare(Conversation(shape, shape, tuple(messages), (), frozenset()))
    assert comparison.out.faults == []
    assert comparison.out.compared >= 4
