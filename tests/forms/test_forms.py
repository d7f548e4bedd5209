"""Shorter forms by example: which results give way, in which order, and what the receipt says (X31, X50)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cli.explain import fates
from planner.ledger.ledger import Ledger
from planner.planner import Planner
from planner.steps.forms import STUB_DIGEST_CHARACTERS
from planner.values.digest import keyed_digest
from planner.values.passage import Passage
from planner.values.plan import Plan, Refusal
from planner.values.reasons import RefusalSignal
from planner.values.request import CurrentRequest, Options, PlanRequest
from planner.values.turn import Message, MustPreserve, ToolCall, ToolResult, Turn
from planner.wire.dump import dump_receipt
from planner.wire.parse import parse_receipt, parse_request
from tests.forms.common import JSON, LOG, form_names
from tests.laws.common import answer_bytes, plan_with, said, toy
from tests.strategies import summary_of
from tests.support.toy import ToyBundle

KEY = b"k" * 32
FULL = "sea " * 60
SHORTS = ("half " * 20, "brief")


def looked(number: int, *texts: str, state: Any = "completed", **fields: Any) -> Turn:
    """Return a turn with one call and result for each text, each with two shorter forms."""
    name = f"t{number}"
    messages = [Message("user", id=f"{name}u", text="look")]
    for at, text in enumerate(texts):
        call = ToolCall(f"{name}c{at}", "look_up", {})
        messages.append(Message("assistant", id=f"{name}a{at}", tool_calls=(call,)))
        messages.append(Message("tool", id=f"{name}r{at}", tool_result=ToolResult(call.id, text, SHORTS)))
    if state == "completed":
        messages.append(Message("assistant", id=f"{name}z", text="done"))
    return Turn(name, 10 * number, state, tuple(messages), **fields)


def asking(*turns: Turn, room: int = 10_000, **fields: Any) -> PlanRequest:
    """Return a request over turns; without a question the newest open turn goes on."""
    waiting = any(turn.state == "open" for turn in turns)
    question = CurrentRequest(id="q", text=None if waiting else "and now?")
    return PlanRequest(**{
        "model_bundle_id": "toy-plain-char", "request": question, "turns": turns, "max_input_tokens": room,
        "reserved_output_tokens": 0, "safety_margin_tokens": 0, **fields,
    })  # fmt: skip


def planned(request: PlanRequest, planner: Planner | None = None) -> Plan:
    """Return the plan; a refusal fails."""
    answer = (planner or toy()).plan(request)
    assert isinstance(answer, Plan), answer
    return answer


def walk(request: PlanRequest, planner: Planner | None = None) -> list[dict[str, list[str]]]:
    """Return the forms of every different plan from everything down to the last that fits."""
    out: list[dict[str, list[str]]] = []
    answer: Plan | Refusal = (planner or toy()).plan(request)
    while isinstance(answer, Plan):
        turns = [key for key in answer.kept if key.startswith(("turn/t", "passage/"))]
        out.append({**{key: [] for key in turns}, **form_names(answer)})
        answer = (planner or toy()).plan(replace(request, max_input_tokens=len(answer.ids) - 1))
    return out


def test_old_results_give_way_oldest_first_one_form_a_step() -> None:
    """Each step is the next form of the oldest result that has one; then turns leave whole, oldest first."""
    steps = walk(asking(looked(1, FULL), looked(2, FULL)))
    first, second = "turn/t1", "turn/t2"
    assert [
        {first: [], second: []}, {first: ["short_1"], second: []}, {first: ["short_2"], second: []},
        {first: ["short_2"], second: ["short_1"]}, {first: ["short_2"], second: ["short_2"]},
        {second: ["short_2"]}, {},
    ] == steps  # fmt: skip


def test_the_open_turn_gives_way_last_and_its_results_oldest_first() -> None:
    """Old results, then old turns, then finished results of the open turn."""
    steps = walk(asking(looked(1, FULL), looked(2, FULL, FULL, state="open")))
    old, own = "turn/t1", "turn/t2"
    assert [
        {old: [], own: []}, {old: ["short_1"], own: []}, {old: ["short_2"], own: []}, {own: []}, {own: ["short_1"]},
        {own: ["short_2"]}, {own: ["short_2", "short_1"]}, {own: ["short_2", "short_2"]},
    ] == steps  # fmt: skip


def test_a_plan_looks_back_over_what_fits_in_short_forms() -> None:
    """Old results far larger than the window stay in their shortest form, as many turns as then fit."""
    turns = tuple(looked(number, "sea " * 3_000) for number in range(1, 9))
    for room, first in ((300, 1), (200, 4), (60, 8)):
        assert {f"turn/t{number}": ["short_2"] for number in range(first, 9)} == form_names(
            planned(asking(*turns, room=room))
        )
    assert planned(asking(*turns, room=12_500)).kept[:8] == tuple(f"turn/t{number}" for number in range(1, 9))


def test_lossless_forms_of_all_results_come_before_anything_is_lost() -> None:
    """Logs and JSON shrink in every old turn before the oldest result takes the application's form."""
    turns = (looked(1, LOG), looked(2, JSON + " " * 90))
    steps = walk(asking(*turns, options=Options(shrink_results="all", stubs=True)))
    assert [["log"], []] == [steps[1]["turn/t1"], steps[1]["turn/t2"]]
    assert [["log"], ["json"]] == [steps[2]["turn/t1"], steps[2]["turn/t2"]]
    assert [["short_1"], ["json"]] == [steps[3]["turn/t1"], steps[3]["turn/t2"]]


@pytest.mark.parametrize(("way", "wanted"), [("off", []), ("json", ["turn/t2"]), ("logs", ["turn/t1"]),
                                             ("all", ["turn/t1", "turn/t2"])])  # fmt: skip
def test_shrinking_is_done_only_where_it_is_asked_for(way: Any, wanted: list[str]) -> None:
    """`shrinkResults` names the kinds of results that may shrink."""
    turns = [looked(1, LOG), looked(2, JSON + " " * 90)]
    bare = [replace(turn, messages=tuple(_bare(message) for message in turn.messages)) for turn in turns]
    seen = {name for step in walk(asking(*bare, options=Options(shrink_results=way))) for name, forms in step.items()
            if forms}  # fmt: skip
    assert set(wanted) == seen


def _bare(message: Message) -> Message:
    result = message.tool_result
    return message if result is None else replace(message, tool_result=replace(result, short_forms=()))


def test_passages_take_their_shorter_forms_before_any_of_them_leaves() -> None:
    """The least relevant first; then passages leave, then old turns."""
    passages = (Passage("c1", FULL, 0.9, short_forms=SHORTS), Passage("c2", "land " * 48, 0.1, short_forms=("brief",)))
    steps = walk(asking(looked(1, "x"), passages=passages))
    one, two, turn = "passage/c1", "passage/c2", "turn/t1"
    assert [
        {turn: [], one: [], two: []}, {turn: [], one: [], two: ["short_1"]},
        {turn: [], one: ["short_1"], two: ["short_1"]}, {turn: [], one: ["short_2"], two: ["short_1"]},
        {turn: [], one: ["short_2"]}, {turn: []}, {},
    ] == steps  # fmt: skip


def test_a_form_that_is_not_shorter_is_no_step() -> None:
    """Forms as long as the last one, in tokens, are passed over; a short result gets no stub."""
    turn = looked(1, "brief", FULL)
    steps = walk(asking(turn, options=Options(stubs=True)))
    assert [[], ["short_1"], ["short_2"]] == [step["turn/t1"] for step in steps if "turn/t1" in step]


def test_a_stub_names_tool_call_and_length_and_a_digest_only_with_a_key() -> None:
    """Without the key no digest of the text exists anywhere, because a short one could be guessed (X50)."""
    turn = looked(1, FULL, state="open")
    turn = replace(turn, messages=tuple(_bare(message) for message in turn.messages))
    request = asking(turn, room=120, options=Options(stubs=True))
    answer = planned(request)
    assert "[result left out: tool look_up, call t1c0, 240 bytes]" in said(answer)
    keyed = planned(
        replace(request, max_input_tokens=160), Planner(ToyBundle(longest_token_bytes=None), digest_key=KEY)
    )
    wanted = keyed_digest(KEY, FULL)[:STUB_DIGEST_CHARACTERS]
    assert f"240 bytes, digest {wanted}]" in said(keyed)
    assert {"turn/t1": ["stub"]} == form_names(answer) == form_names(keyed)


def test_what_is_protected_stays_as_it_is() -> None:
    """A protected turn, a protected result, the result of a protected call and a marked one keep their words."""
    protected = looked(1, FULL)
    protected = replace(protected, messages=(replace(protected.messages[0], protection_reason="audit-evidence"),
                                             *protected.messages[1:]))  # fmt: skip
    options = Options(stubs=True, shrink_results="all")
    assert not any(any(step.values()) for step in walk(asking(protected, options=options)))
    waiting = {"protection_reason": "pending-confirmation"}
    for place, change in ((1, waiting), (2, waiting), (2, {"constraint_ids": ("k",)})):
        turn = looked(1, FULL, state="open", must_preserve=(MustPreserve("k", "pay late"),))
        messages = list(turn.messages)
        messages[place] = replace(messages[place], **change)  # type: ignore[arg-type]
        answer = toy().plan(asking(replace(turn, messages=tuple(messages)), room=200, options=options))
        assert isinstance(answer, Refusal)
        assert "open_turn_overflow" == answer.reason


def test_a_named_tail_stays_in_full() -> None:
    """`tailTurns` keeps the newest turns raw, so their results are not shortened."""
    steps = walk(asking(looked(1, FULL), looked(2, FULL), options=Options(tail_turns=1)))
    assert {"turn/t2": []} == steps[-1]


def test_a_forbidden_eviction_still_lets_results_shorten() -> None:
    """Shortening takes no turn away."""
    steps = walk(asking(looked(1, FULL), looked(2, FULL), options=Options(allow_history_eviction=False)))
    assert {"turn/t1": ["short_2"], "turn/t2": ["short_2"]} == steps[-1]


def test_a_result_larger_than_any_window_begins_with_the_form_that_could_fit() -> None:
    """What has more bytes than the window has tokens is never encoded; the first form that could fit stands there."""
    planner = Planner(ToyBundle(longest_token_bytes=4))
    huge = "sea " * 5_000
    for turn in (looked(1, huge), looked(1, huge, state="open")):
        answer = planned(asking(turn, room=400), planner)
        assert {"turn/t1": ["short_1"]} == form_names(answer)
        assert int(answer.diagnostics["characters_encoded"]) < 5_000
    passage = Passage("c1", huge, 0.5, short_forms=(huge[:-4], "brief"))
    answer = planned(asking(passages=(passage,), room=300), planner)
    assert {"passage/c1": ["short_2"]} == form_names(answer)
    bare = replace(looked(1, huge, state="open"), messages=tuple(
        _bare(message) for message in looked(1, huge, state="open").messages))  # fmt: skip
    refused = planner.plan(asking(bare, room=400))
    assert isinstance(refused, Refusal)
    assert ("input_too_large", "turn t1: result t1r0") == (refused.reason, refused.detail)


def test_results_that_could_only_fit_together_in_short_begin_so() -> None:
    """Two results of an old turn, each within the bytes of a window, both beyond: the older begins shorter."""
    planner = Planner(ToyBundle(longest_token_bytes=4))
    answer = planned(asking(looked(1, "sea " * 300, "sea " * 300), room=450), planner)
    assert {"turn/t1": ["short_2", "short_1"]} == form_names(answer)
    refused = planner.plan(asking(looked(1, "sea " * 300, "sea " * 300), room=40))
    assert "turn/t1" not in refused.receipt.kept


def test_a_summary_longer_than_the_short_forms_gains_nothing() -> None:
    """Before a summary stands for its run, results are in their shortest form; only against that it may save (X42)."""
    turn = looked(1, FULL)
    asked = replace(turn.messages[0], text="note " * 60)
    turns = (replace(turn, messages=(asked, *turn.messages[1:])), looked(2, "x"))
    for text, room, fate in (("sea " * 60, 380, "no_gain"), ("s", 360, "used")):
        answer = plan_with(toy().encoder(), asking(*turns, room=room), (summary_of("s0", turns[:1], text),))
        assert isinstance(answer, Plan)
        assert [fate] == [use.fate for use in answer.receipt.summaries]


def test_receipt_plan_file_and_explain_name_each_form() -> None:
    """The turn is kept under its own id with the tokens it really has; the form is on the receipt with its tokens."""
    passage = Passage("c1", FULL, 0.5, short_forms=("brief",))
    answer = planned(asking(looked(1, FULL), looked(2, FULL, state="open"), passages=(passage,), room=520))
    assert [("turn/t1", "short_2", 5, "t1c0", 12), ("passage/c1", "short_1", 5, None, None)] == [
        (use.id, use.form, use.tokens, use.call_id, use.sequence) for use in answer.receipt.forms
    ]
    assert answer.kept == ("turn/t1", "passage/c1", "turn/t2", "request/q")
    tokens = {item.id: item.tokens for item in answer.plan_file.items}
    assert answer.account.items["turn/t1"] == tokens["turn/t1"] < 60
    assert len(answer.ids) == sum(tokens.values())
    assert parse_receipt(dump_receipt(answer.receipt)) == answer.receipt
    rows = {row["id"]: row for row in fates(answer.receipt)}
    assert [{"form": "short_2", "tokens": 5, "callId": "t1c0", "sequence": 12}] == rows["turn/t1"]["forms"]
    assert "forms" not in rows["turn/t2"]


def test_forms_are_chosen_by_size_alone() -> None:
    """Other words of the same lengths take the same forms."""
    turns = (looked(1, FULL), looked(2, FULL, state="open"))
    other = tuple(replace(turn, messages=tuple(_shouted(message) for message in turn.messages)) for turn in turns)
    for room in range(60, 700, 20):
        plain, loud = (toy().plan(asking(*chosen, room=room)) for chosen in (turns, other))
        assert plain.accepted == loud.accepted
        if isinstance(plain, Plan) and isinstance(loud, Plan):
            assert form_names(plain) == form_names(loud)


def _shouted(message: Message) -> Message:
    result = message.tool_result
    if result is None:
        return message
    shorts = tuple(text.upper() for text in result.short_forms)
    return replace(message, tool_result=replace(result, text=result.text.upper(), short_forms=shorts))


def test_blank_and_countless_forms_are_invalid_input() -> None:
    """A form must say something, and there are at most 16 of them."""
    for shorts, path in ((("x", " "), "[1]"), (("x",) * 17, "")):
        turn = looked(1, FULL)
        messages = list(turn.messages)
        messages[2] = replace(messages[2], tool_result=ToolResult("t1c0", FULL, shorts))
        answer = toy().plan(asking(replace(turn, messages=tuple(messages))))
        assert isinstance(answer, Refusal)
        assert "invalid-input" == answer.reason
        assert answer.detail.startswith(f"$.turns[0].messages[2].toolResult.shortForms{path}: ")
        answer = toy().plan(asking(passages=(Passage("c1", FULL, short_forms=shorts),)))
        assert isinstance(answer, Refusal)
        assert answer.detail.startswith(f"$.passages[0].shortForms{path}: ")


def test_another_way_of_shrinking_is_invalid_input() -> None:
    """`shrinkResults` is one of four words, `stubs` true or false."""
    for options in ('{"shrinkResults":"zip"}', '{"stubs":1}'):
        with pytest.raises(RefusalSignal, match="invalid-input"):
            parse_request(f'{{"schemaVersion":"1.0","modelBundleId":"b","options":{options}}}'.encode())


def test_a_ledger_keeps_forms_and_plans_with_them(tmp_path: Path) -> None:
    """A plan from a ledger equals the cold plan with the same turns sent, in every window, forms and all."""
    with Ledger.open(tmp_path / "chat.db") as ledger:
        for turn in (looked(1, FULL), looked(2, LOG, FULL), looked(3, FULL, LOG, state="open")):
            ledger.append("c1", turn.id, turn.messages, state=turn.state)
        chat, view = toy().ledger_conversation(ledger, "c1"), ledger.view("c1")
        turns = tuple(view.turns)
        assert SHORTS == turns[0].messages[2].tool_result.short_forms  # type: ignore[union-attr]
        shown = set()
        for room in range(2_400, 150, -90):
            request = asking(looked(3, state="open"), room=room, options=Options(stubs=True, shrink_results="logs"))
            warm = chat.plan(replace(request, turns=()), record=False)
            cold = toy().plan(replace(request, turns=turns, conversation_id="c1", generation=view.generation,
                                      revision=view.revision))  # fmt: skip
            assert answer_bytes(cold) == answer_bytes(warm)
            shown |= {use.form for use in warm.receipt.forms}
        assert {"log", "short_1", "short_2"} <= shown


def test_a_newer_version_of_a_turn_replaces_what_was_known_of_its_forms() -> None:
    """An open turn planned with, then replaced by one of other results: every later plan is the cold one."""
    conversation = toy().conversation()
    conversation.append(looked(1, FULL, FULL, state="open"))
    request = asking(looked(1, state="open"), turns=())
    assert conversation.plan(replace(request, max_input_tokens=400)).accepted
    for texts in (("brief", FULL), (FULL, "sea " * 30, FULL), (FULL,)):
        turn = looked(1, *texts, state="open")
        conversation.replace(turn)
        for room in range(60, 700, 40):
            tight = replace(request, max_input_tokens=room)
            assert answer_bytes(toy().plan(replace(tight, turns=(turn,)))) == answer_bytes(conversation.plan(tight))
