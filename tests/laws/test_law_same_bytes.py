"""Law 5: same request and bundle, same bytes: across processes, hash seeds, time zones, threads and order."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.planner import Planner
from planner.values.passage import Passage
from planner.values.plan import Plan
from planner.values.request import CurrentRequest, OutputSchema, PlanRequest, TextItem
from planner.values.turn import Message, ToolCall, ToolResult, Turn
from tests.laws.common import answer_bytes, between, sizes, toy, with_room
from tests.strategies import requests, tool_of
from tests.support.toy import ToyBundle

ROOT = Path(__file__).resolve().parents[2]
THREADS = 16


def fixed_requests(bundle_id: str, scale: int = 1) -> list[PlanRequest]:
    """Return requests of every kind: whole, cut, overflowing, continued, with passages and a schema."""
    turns = []
    for number in range(12):
        call = Message("assistant", id=f"a{number}", tool_calls=(ToolCall(f"c{number}", "send", {"z": "1", "a": "é"}),))
        result = Message("tool", id=f"r{number}", tool_result=ToolResult(f"c{number}", "sea 🙂 " * number * scale))
        words = Message("user", id=f"u{number}", text=f"note {number} <|end|> 中文"), call, result
        turns.append(Turn(f"t{number}", 3 * number, "completed", (*words, Message("assistant", text="rain"))))
    passages = tuple(Passage(f"c{number}", f"passage {number}", 0.5) for number in range(5))
    base = PlanRequest(
        bundle_id, CurrentRequest(id="q", text="and now?"), policy=(TextItem("p", "be brief"),),
        tools=(tool_of("send", "send it"), tool_of("look_up", "find it")), turns=tuple(turns), passages=passages,
        output_schema=OutputSchema("s", {"type": "object", "properties": {"b": {}, "a": {}}}),
        max_input_tokens=4_000 * scale, reserved_output_tokens=16, now="2026-11-30T12:00:00Z",
    )  # fmt: skip
    opened = replace(turns[-1], state="open", messages=turns[-1].messages[:-1])
    continued = replace(base, turns=(*turns[:-1], opened), request=CurrentRequest())
    rooms = (4_000 * scale, 1_600, 1_200, 900, 700, 60)
    return [replace(one, max_input_tokens=room) for one in (base, continued) for room in rooms]


def digest_of(planner: Planner, asked: list[PlanRequest]) -> str:
    """Return one digest over every answer's bytes."""
    found = hashlib.sha256()
    for request in asked:
        found.update(answer_bytes(planner.plan(request)))
    return found.hexdigest()


_SCRIPT = """
from planner.planner import Planner
from tests.laws.test_law_same_bytes import digest_of, fixed_requests
from tests.support.toy import ToyBundle
planner = Planner(ToyBundle("jitter", "pair", longest_token_bytes=None))
print(digest_of(planner, fixed_requests(planner.bundle_id)))
"""


def test_every_process_gives_the_same_bytes() -> None:
    """Three fresh processes with other hash seeds, time zones and locales agree with this one."""
    planner = toy("jitter", "pair")
    right = digest_of(planner, fixed_requests(planner.bundle_id))
    for seed, zone, locale in (("0", "UTC", "C"), ("4242", "Asia/Kathmandu", "C.UTF-8"), ("random", "EST5EDT", "C")):
        given_env = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": locale}
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT], cwd=ROOT, env=given_env, capture_output=True, text=True, check=False
        )
        assert right == done.stdout.strip(), done.stderr


def test_sixteen_threads_give_the_bytes_of_one() -> None:
    """Sixteen threads start together on one fresh planner, each in another order, and all agree with one."""
    asked = fixed_requests("toy-jitter-pair")
    right = [answer_bytes(toy("jitter", "pair").plan(request)) for request in asked]
    shared = Planner(ToyBundle("jitter", "pair", longest_token_bytes=None), cache_bytes=20_000)
    gate = Barrier(THREADS)

    def work(number: int) -> list[bytes]:
        gate.wait()
        order = [(number + step) % len(asked) for step in range(len(asked))]
        found = {at: answer_bytes(shared.plan(asked[at])) for at in order}
        return [found[at] for at in range(len(asked))]

    with ThreadPoolExecutor(THREADS) as pool:
        for found in pool.map(work, range(THREADS)):
            assert right == found


def test_threads_may_share_a_conversation() -> None:
    """A conversation planned from sixteen threads at once gives what it gives alone."""
    planner = toy("plain", "pair")
    asked = [replace(one, turns=()) for one in fixed_requests(planner.bundle_id)[:6]]
    conversation = planner.conversation()
    conversation.extend(fixed_requests(planner.bundle_id)[0].turns)
    right = [answer_bytes(conversation.plan(request)) for request in asked]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda at: answer_bytes(conversation.plan(asked[at % 6])), range(48)))
    assert right * 8 == found


@pytest.mark.parametrize("what", ["turns", "passages"])
@given(data=st.data())
def test_the_order_of_turns_and_passages_changes_no_byte(what: str, data: st.DataObject) -> None:
    """Turns are ordered by sequence and passages by relevance and id, whatever order they came in."""
    planner = toy("jitter", "pair")
    request = data.draw(requests(planner.bundle_id))
    measured = sizes(planner, request)
    request = with_room(request, between(measured[-1], measured[0], data.draw(st.floats(-0.1, 1))))
    shuffled = replace(request, **{what: tuple(data.draw(st.permutations(getattr(request, what))))})  # type: ignore[arg-type]
    assert answer_bytes(planner.plan(request)) == answer_bytes(planner.plan(shuffled))


@given(data=st.data())
def test_a_small_cache_changes_no_byte(data: st.DataObject) -> None:
    """An evicted cache costs time and nothing else."""
    tight = Planner(ToyBundle("plain", "pair", longest_token_bytes=None), cache_bytes=1)
    request = data.draw(requests(tight.bundle_id))
    assert answer_bytes(toy("plain", "pair").plan(request)) == answer_bytes(tight.plan(request))


def test_the_clock_is_an_input() -> None:
    """`now` is the only clock: another instant is another request, and nothing else changes a plan."""
    request = fixed_requests("toy-plain-char")[0]
    first, again = toy().plan(request), toy().plan(request)
    later = toy().plan(replace(request, now="2027-01-01T00:00:00Z"))
    assert isinstance(first, Plan)
    assert isinstance(later, Plan)
    assert answer_bytes(first) == answer_bytes(again)
    assert first.receipt.request_digest != later.receipt.request_digest
    assert first.ids == later.ids, "a template that reads no clock"
