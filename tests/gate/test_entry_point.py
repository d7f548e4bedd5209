"""One entry point before every inference call, the summary call and the gate among them (card, R214, R218)."""

from __future__ import annotations

import ast
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import planner as package
from planner import Planner
from planner.compaction.call import Summariser
from planner.compactor.service import Compactor
from planner.compactor.shown import Choices
from planner.gate.cells import Subject, cells_of, run_cell
from planner.ledger.ledger import Ledger
from planner.planner import PlanEvent
from planner.values.account import SEVEN_FIELDS
from planner.values.plan import Plan, Refusal
from planner.values.request import PlanRequest
from tests.cli.ledger_support import here
from tests.cli.support import small_request
from tests.compactor.support import CHAT as SUMMARISED
from tests.compactor.support import Script, fill, toy
from tests.gate.gate_support import asked, candidate, planner, sample
from tests.support.upstream import Upstream, running
from tests.tidy.sources import PACKAGE, modules, tree

RUNS_CELLS = ("cells", "limits", "engine", "engine_dask", "checks", "verdict")
Capture = pytest.CaptureFixture[bytes]
CHAT = [{"role": "user", "content": "Where is lift 3?"}]
ASKING = frozenset({"complete_ids", "complete_messages"})
CALLERS = {"cli/compacting.py": ASKING}
"""Where a model is asked by name; each of them holds a planned prompt (see the tests below)."""


def odd_requests() -> Iterator[PlanRequest]:
    """Yield sound and broken requests, none of which may raise."""
    sound = asked()
    yield from (sound, asked(turns=()), asked(policy=()), replace(sound, request=None))
    for limit in (0, -1, 1, 70, 2000, 10**9, True, "9", 1.5, None):
        yield asked(max_input_tokens=limit)
    for reserve in (0, -1, 10**6, True):
        yield asked(reserved_output_tokens=reserve)
    yield replace(sound, turns=(*sound.turns, *sound.turns))
    yield replace(sound, turns=tuple(reversed(sound.turns)))
    yield asked(tier_id="no such tier")
    yield asked(now="yesterday")


def test_R214_runs_before_every_inference_call() -> None:
    """A request in, a plan or a typed refusal out, one text-free event each; every front gives the same ids."""
    events: list[PlanEvent] = []
    one = Planner("reference", on_plan=events.append)
    answers = [one.plan(request) for request in odd_requests()]
    assert {Plan, Refusal} == {type(answer) for answer in answers}
    for answer in answers:
        assert isinstance(answer, Refusal) or 0 < len(answer.ids) <= answer.account.input_limit
        assert not isinstance(answer, Refusal) or not hasattr(answer, "ids")
    assert [answer.receipt.plan_id for answer in answers] == [event.plan_id for event in events]

    request = one.plan(messages=CHAT)
    with tempfile.TemporaryDirectory() as folder, Ledger.open(f"{folder}/chats.db") as ledger:
        assert isinstance(request, Plan)
        assert request.ids == package.plan(messages=CHAT, bundle="reference").ids  # type: ignore[union-attr]
        for turn in asked().turns:
            ledger.append("c1", turn.id, turn.messages, state="completed")
        chat = one.conversation()
        for turn in asked().turns:
            chat.append(turn)
        fronts = [
            one.plan(asked()),
            chat.plan(asked(turns=())),
            one.ledger_conversation(ledger, "c1").plan(asked(turns=())),
        ]
    ids = [list(answer.ids) for answer in fronts if isinstance(answer, Plan)]
    assert (3, 1) == (len(ids), len({json.dumps(row) for row in ids}))


def test_card_every_call_goes_through_planner(tmp_path: Path, capsysbinary: Capture) -> None:
    """What a server gets are the ids of a plan, once; what is refused reaches no server. No other module asks one."""
    path = tmp_path / "request.json"
    with running() as server:
        _window(server)
        path.write_bytes(small_request())
        ids = here(capsysbinary, "plan", path, "--json").json["ids"]
        here(capsysbinary, "run", path, "--url", server.url)
        sent = [body["prompt"] for place, body in server.asked if place == "/completion"]
        assert [ids] == sent
        path.write_bytes(small_request(maxInputTokens=41))
        assert 2 == here(capsysbinary, "run", path, "--url", server.url).code
        assert 1 == len([place for place, _ in server.asked if place == "/completion"])
    found: dict[str, set[str]] = {}
    for module in modules():
        inside = module.relative_to(PACKAGE).as_posix()
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ASKING:
                found.setdefault(inside, set()).add(node.func.attr)
    assert found == CALLERS


def _window(server: Upstream) -> None:
    props = {"default_generation_settings": {"n_ctx": 400}, "total_slots": 1}
    server.answers["/props"] = (200, json.dumps(props).encode())
    server.answers["/slots"] = (200, json.dumps([{"id": 0, "n_ctx": 400}]).encode())


def test_card_summary_call_is_planned(tmp_path: Path) -> None:
    """The model that summarises is asked with the ids of a plan of its own bundle, and of no other length (X66)."""
    asked_of_planner: list[Plan] = []

    def planning(request: PlanRequest) -> Plan | Refusal:
        answer = toy().plan(request)
        if isinstance(answer, Plan):
            asked_of_planner.append(answer)
        return answer

    with Ledger.open(tmp_path / "chat.db") as ledger:
        fill(ledger, 8)
        summariser = Summariser(toy().bundle_id, 9_000, 256)
        script = Script()
        Compactor(
            ledger, SUMMARISED, Choices(policy_version="v1", risk="low"), summariser=summariser, planning=planning
        ).run(script)  # fmt: skip
    assert script.asked
    planned = [list(answer.ids) for answer in asked_of_planner]
    for prompt in script.asked:
        assert list(prompt.ids) in planned
        assert len(prompt.ids) <= 9_000 - 256


def gate_and_app(request: PlanRequest) -> tuple[list[Plan | Refusal], Plan | Refusal]:
    """Plan a sample by the gate, listening to the planner, and then as an app does."""
    heard: list[Plan | Refusal] = []
    one = planner()

    def listening(inner: PlanRequest) -> Plan | Refusal:
        heard.append(one.plan(inner))
        return heard[-1]

    made = candidate()
    cell = next(cells_of([sample(request=request)], [("reference", made.bundle_digests[0])], ["4k"], made))
    result = run_cell(cell, Subject("reference", one.encoder().bundle, listening))
    assert [answer.receipt for answer in heard] == list(result.receipts)
    own = replace(request, candidate_id=made.candidate_id, app_version=made.app_version)
    return heard, one.plan(own if own.max_input_tokens is not None else replace(own, tier_id="4k"))


def test_R218_release_gate_budget_check() -> None:
    """The gate's answer is the app's: ids, account and receipt, for a plan and for a refusal."""
    for request in (asked(), asked(max_input_tokens=300), asked(max_input_tokens=70)):
        (heard,), answer = gate_and_app(request)
        assert heard.receipt == answer.receipt
        assert isinstance(heard, Plan) == isinstance(answer, Plan)
        if isinstance(heard, Plan) and isinstance(answer, Plan):
            assert (heard.ids, heard.account, heard.max_output_tokens) == (
                answer.ids, answer.account, answer.max_output_tokens,
            )  # fmt: skip
            assert all(isinstance(getattr(answer.account, name), int) for name in SEVEN_FIELDS)


def test_card_gate_uses_same_code_path() -> None:
    """What runs cells imports nothing that plans: it is given `Planner.plan`, as an app calls it (R218)."""
    from planner.cli.gate_run import open_subjects

    for module in (PACKAGE / "gate" / f"{name}.py" for name in RUNS_CELLS):
        names = {node.module or "" for node in ast.walk(tree(module)) if isinstance(node, ast.ImportFrom)}
        assert not {name for name in names if name in ("planner.pipeline", "planner.planner")}, module.name
    made = candidate()
    run = open_subjects(("reference",), made.app_version)
    cell = next(cells_of([sample()], [("reference", made.bundle_digests[0])], ["4k"], made))
    own = replace(asked(), candidate_id=made.candidate_id, app_version=made.app_version, tier_id="4k")
    assert (Planner("reference").plan(own).receipt,) == run(cell).receipts
