"""Published vocabularies and templates on a real llama.cpp: its template engine, its tokenizer, its counts.

By default 36 generated conversations a family, all 66 dialogues on gemma-4 and qwen3.5 and a third of them on the
others; PLANNER_FULL=1 runs all 66 everywhere and 120 conversations.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.bundle import FolderBundle
from planner.bundles.open import open_bundle
from planner.planner import Planner
from planner.runtimes.llama_cpp import LlamaServer as Client
from planner.runtimes.llama_cpp import differences, expected_cached
from planner.values.plan import Plan, Refusal
from planner.values.request import CONCESSIONS, Options
from tests.parity.outcomes import Comparison, chat_of
from tests.parity.test_real_traffic import Traffic
from tests.support import conversations
from tests.support.dialogues import Dialogue
from tests.support.gguf_families import FAMILIES, Family, written
from tests.support.gguf_reference import GgufReference
from tests.support.llama_server import NEEDS_LLAMA, LlamaServer

pytestmark = NEEDS_LLAMA
FULL = os.environ.get("PLANNER_FULL") == "1"
CONVERSATIONS = 120 if FULL else 36
WINDOW = 16_384
ALL_DIALOGUES = ("gemma-4", "qwen3.5")
CLEAN = {"reference": 64, "qwen3": 64, "llama-3.1": 64, "gemma-4": 64, "qwen3.5": 63}
"""Of 66; the others exceed the window with what cannot move, which the judge finds as well."""


@dataclass
class Opened:
    """A family's file, opened by us and served by the runtime."""

    family: Family
    bundle: FolderBundle
    reference: GgufReference
    server: LlamaServer

    @cached_property
    def comparison(self) -> Comparison:
        """The template's traits and the list that it can carry."""
        return Comparison(self.bundle, self.reference)

    @cached_property
    def template_options(self) -> dict[str, Any]:
        """What the runtime tells a template by itself and a request has to say: today's date, by its clock."""
        shown = self.server.template_of([{"role": "user", "content": "x"}])
        found = re.search(r"Today Date: (.*)\n", shown)
        return {} if found is None else {"date_string": found[1]}

    def plan(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], **fields: Any) -> Plan:
        """Plan with every concession."""
        answer = Planner(self.bundle).plan(
            messages=messages, tools=tools or None, max_input_tokens=WINDOW, options=Options(concessions=CONCESSIONS),
            template_options=self.template_options, **fields,
        )  # fmt: skip
        assert isinstance(answer, Plan), answer
        return answer


@pytest.fixture(scope="module", params=FAMILIES, ids=[one.name for one in FAMILIES])
def opened(
    request: pytest.FixtureRequest, shared_dir: Path, bundle_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """A family's server, started once for the tests of this module."""
    family: Family = request.param
    path = tmp_path_factory.mktemp("family") / f"{family.name}.gguf"
    written(family, shared_dir, bundle_dir, path, WINDOW)
    bundle = open_bundle(path)
    with LlamaServer(path, context=WINDOW, cache_ram_mib=0) as server:
        yield Opened(family, bundle, GgufReference(path, bundle), server)


def cause_of(family: Family, messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Name why the runtime's template engine writes another text for a list, None where it must write ours."""
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    if family.name == "gemma-4" and calls:
        return "for this template the server turns calls and results into a shape of its own"
    for call in calls:
        text = call["function"]["arguments"]
        if isinstance(text, str) and text != json.dumps(json.loads(text), ensure_ascii=False):
            return "the server reads arguments that came as text and prints them again"
    return None


def test_the_runtimes_own_template_and_tokenizer_make_the_plan(opened: Opened, seed: int) -> None:
    """Its prompt text, its ids of that text and its count of the messages are the plan's, or the cause is named."""
    family, server, wrong, equal = opened.family, opened.server, [], 0
    begin = opened.bundle.variables["bos_token"] if family.begins else ""
    for item in conversations.generate(CONVERSATIONS, seed):
        plan = opened.plan(item.messages, item.tools)
        messages = opened.comparison.helped.framed(chat_of(item), 0).messages
        shown = begin + server.template_of(messages, item.tools, **family.kwargs)
        counted = server.counted(messages, item.tools, **family.kwargs)
        differs = {"text": shown != plan.prompt, "count": counted != len(plan.ids)}
        if list(plan.ids) != server.tokenize(plan.prompt or ""):
            wrong.append(f"{item.id}: other ids of the same text")
        if differs["text"] is not bool(cause_of(family, messages)) or differs["count"] > differs["text"]:
            wrong.append(f"{item.id}: {differs}, {cause_of(family, messages)}")
        equal += not differs["text"]
    assert [] == wrong
    assert CONVERSATIONS // 4 < equal


def test_a_text_of_one_character_more_is_found(opened: Opened) -> None:
    """The comparison can fail: in text, ids and count."""
    messages = [{"role": "user", "content": "How many moons has Mars?"}]
    more = [{"role": "user", "content": "How many moons has Mars??!"}]
    server, kwargs = opened.server, opened.family.kwargs
    plan = opened.plan(messages, ())
    begin = opened.bundle.variables["bos_token"] if opened.family.begins else ""
    assert begin + server.template_of(messages, **kwargs) == plan.prompt
    assert begin + server.template_of(more, **kwargs) != plan.prompt
    assert server.counted(messages, **kwargs) == len(plan.ids) != server.counted(more, **kwargs)
    assert server.tokenize(plan.prompt or "") == list(plan.ids) != server.tokenize((plan.prompt or "") + "!")


class Recorded:
    """A planner that keeps its answers."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self.answers: list[Plan | Refusal] = []

    def plan(self, **fields: Any) -> Plan | Refusal:
        """Plan and keep the answer."""
        self.answers.append(self._planner.plan(**fields))
        return self.answers[-1]


def test_66_of_66_dialogues_are_clean_and_read_as_planned(opened: Opened, dialogues: list[Dialogue]) -> None:
    """Real traffic in 8,192 tokens: the judge finds no better cut, and the server reads, caches and cuts as planned."""
    family = opened.family
    chosen = dialogues if FULL or family.name in ALL_DIALOGUES else dialogues[::3]
    traffic = Traffic((opened.bundle, opened.reference), family.concessions)
    recorded = Recorded(traffic.planner)
    traffic.planner = recorded  # type: ignore[assignment]
    traffic.run(chosen)
    assert [] == traffic.faults
    overflows = traffic.count("open_turn_overflow", "context_policy_overflow")
    assert len(chosen) == traffic.count("clean") + overflows
    if len(chosen) == 66:
        assert CLEAN[family.name] == traffic.count("clean")
    plans = [answer for answer in recorded.answers if isinstance(answer, Plan)]
    client, before, wrong = Client(opened.server.url), ((), ()), []
    for number, plan in enumerate(plans):
        served = client.run(plan.ids, 2, slot=0)
        cached = expected_cached(*before, plan.ids)
        before = plan.ids, served.ids or ()  # type: ignore[assignment]
        wrong += [f"{number}: {one}" for one in differences(served, len(plan.ids), plan.max_output_tokens)]
        if cached != served.cached_tokens or served.truncated:
            wrong.append(f"{number}: {cached} {served.cached_tokens} {served.truncated}")
    assert [] == wrong
