"""Every way a call of ledger, compactor and planning can be refused, each with words in all channels."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import apsw

from planner.ledger.ledger import Ledger
from planner.ledger.legacy import LegacyRecord
from planner.ledger.stored import Active, Checked
from planner.values.compaction import Rejected, Staleness
from planner.values.request import CurrentRequest
from planner.values.switches import Switches
from planner.values.turn import Message, MustPreserve, OpenItem, ToolCall, ToolResult
from tests.crash.canary import CHAT, WORD, Chat, answer, request
from tests.crash.toy_planner import POLICY, chat_of
from tests.ledger.summary_support import summary_of

BAD = f"{WORD['id']} is no id"
NEW = [Message("user", "u9", WORD["text"]), Message("assistant", "a9", WORD["part"])]
Act = Callable[[Chat], Any]


def plan_of(chat: Chat) -> Any:
    """Return the active compaction plan."""
    return chat.ledger.active_plan(CHAT)


def record_of(chat: Chat, **fields: Any) -> Any:
    """Return a sound record of the plan's run, with a word in its text; fields replace parts."""
    return replace(summary_of(plan_of(chat), "s9"), summary_text=WORD["decision"], **fields)


def deliver(chat: Chat, record: Any, event: int | None = None) -> Any:
    """Save a summary as the compactor does."""
    seen = chat.ledger.head(CHAT).event if event is None else event
    return chat.ledger.save_summary(
        record, record.plan_id, Checked(seen, Active(POLICY)), {"why": f"the {WORD['decision']} plan"}
    )


def _damage(sql: str) -> Callable[[Chat], None]:
    def act(chat: Chat) -> None:
        connection = apsw.Connection(str(chat.path))
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(sql)
        assert connection.changes() > 0
        connection.close()

    return act


def _after(first: Callable[[Chat], Any], then: Act) -> Act:
    """Return an act that comes after another one."""

    def act(chat: Chat) -> Any:
        first(chat)
        return then(chat)

    return act


def _one(message: Message) -> Act:
    return lambda chat: chat.ledger.append(CHAT, "t9", [message])


def _verify(chat: Chat) -> Any:
    report = chat.ledger.verify()
    assert not report.sound
    return report


def _half_ids() -> dict[str, Act]:
    """Return calls with what is no id where an id belongs."""
    return {
        "conversation": lambda c: c.ledger.append(BAD, "t9", NEW),
        "turn": lambda c: c.ledger.append(CHAT, BAD, NEW),
        "message": lambda c: c.ledger.append(CHAT, "t9", [Message("user", BAD, "x")]),
        "call": lambda c: c.ledger.append(CHAT, "t9", [Message("assistant", "a", None, tool_calls=(
            ToolCall(BAD, BAD, {}),))]),
        "constraint": lambda c: c.ledger.mark(CHAT, "t1", [MustPreserve(BAD, WORD["constraint"])]),
        "named constraint": _one(Message("user", "u9", "x", constraint_ids=(BAD,))),
        "citation": _one(Message("user", "u9", "x", citation_ids=(BAD,))),
        "item": lambda c: c.ledger.set_item(CHAT, "t1", OpenItem(BAD, "pending")),
        "branch": lambda c: c.ledger.branch(CHAT, BAD, at_turn_id="t1"),
        "actor": lambda c: c.ledger.cancel(CHAT, "t3", actor=BAD),
        "reason": lambda c: c.ledger.retain(CHAT, 1, BAD),
        "protection": lambda c: c.ledger.protect(CHAT, "u1", BAD),
        "refusal": lambda c: c.ledger.refuse(CHAT, "u1", BAD),
        "state": lambda c: c.ledger.set_state(CHAT, "t3", BAD),
        "part kind": lambda c: c.ledger.put_part(CHAT, BAD, b"x"),
        "part key": lambda c: c.ledger.put_part(CHAT, "k", b"x", BAD),
        "role": _one(Message(BAD, "u9", "x")),
        "material": lambda c: c.ledger.append(CHAT, "t9", NEW, material=BAD),
        "plan": lambda c: c.ledger.save_plan(replace(plan_of(c), plan_id=BAD)),
        "policy version": lambda c: c.ledger.save_plan(replace(plan_of(c), policy_version=BAD)),
        "summary": lambda c: deliver(c, record_of(c, id=BAD)),
        "unknown conversation": lambda c: c.ledger.view(BAD),
        "unknown turn": lambda c: c.ledger.edit(CHAT, BAD, NEW[0]),
        "unknown branch": lambda c: c.ledger.switch(CHAT, BAD),
        "unknown versions": lambda c: c.ledger.versions(CHAT, BAD),
        "unknown part": lambda c: c.ledger.part(CHAT, "kind", BAD),
        "unknown part kind": lambda c: c.ledger.part(CHAT, BAD, "key"),
        "unknown supersede": lambda c: c.ledger.supersede(CHAT, "t2", [BAD]),
        "unknown stale": lambda c: c.ledger.invalidate(CHAT, [Staleness(BAD, "cause")]),
        "unknown rejected": lambda c: c.ledger.record_rejection(CHAT, BAD, 0, Rejected("invalid-summary", "x: $")),
        "legacy": lambda c: c.ledger.import_legacy(CHAT, [LegacyRecord(BAD, WORD["legacy"])]),
        "receipt": lambda c: c.ledger.save_receipt(CHAT, json.dumps({"planId": BAD}).encode(), generation=1),
        "receipt digest": lambda c: c.ledger.save_receipt(
            CHAT, json.dumps({"planId": "p", "requestDigest": BAD}).encode(), generation=1),
    }  # fmt: skip


def _writes() -> dict[str, Act]:
    """Return broken and repeated writes."""
    return {
        "other text": lambda c: c.ledger.append(CHAT, "t1", [Message("user", "u1", WORD["text"])]),
        "ended turn": lambda c: c.ledger.append(CHAT, "t1", NEW),
        "no messages": lambda c: c.ledger.append(CHAT, "t9", []),
        "two texts": _one(Message("user", "u9", WORD["text"], parts=(NEW[0],))),  # type: ignore[arg-type]
        "surrogate": _one(Message("user", "u9", f"{WORD['text']}\ud800")),
        "zero": _one(Message("user", "u9", f"{WORD['text']}\0")),
        "result alone": _one(Message("tool", "r9", tool_result=ToolResult("none", WORD["result"]))),
        "arguments": _one(Message("assistant", "a9", None, tool_calls=(
            ToolCall("k", "f", {WORD["argument key"]: {1}}),))),
        "system": _one(Message("system", "s9", WORD["policy"])),
        "not a message": lambda c: c.ledger.append(CHAT, "t9", [WORD["text"]]),
        "text no text": _one(Message("user", "u9", [WORD["text"]])),  # type: ignore[arg-type]
        "edit no message": lambda c: c.ledger.edit(CHAT, "u1", WORD["text"]),
        "other wording": lambda c: c.ledger.mark(CHAT, "t0", [MustPreserve("C1", WORD["text"])]),
        "wording": lambda c: c.ledger.mark(CHAT, "t1", [MustPreserve("C2", f"{WORD['constraint']}\ud800")]),
        "back to open": lambda c: c.ledger.set_state(CHAT, "t1", "open"),
        "old generation": lambda c: c.ledger.append(CHAT, "t9", NEW, generation=7),
        "protected": lambda c: (c.ledger.protect(CHAT, "u0", "audit-evidence"), c.ledger.retain(CHAT, 5, "policy")),
        "legacy again": lambda c: c.ledger.import_legacy(CHAT, [LegacyRecord("l1", WORD["text"])]),
        "part again": lambda c: [c.ledger.put_part(CHAT, "k", WORD[one].encode(), "key") for one in ("text", "part")],
        "receipt": lambda c: c.ledger.save_receipt(CHAT, WORD["text"].encode(), generation=1),
        "receipt bytes": lambda c: c.ledger.save_receipt(CHAT, WORD["text"].encode() + b"\xff", generation=1),
        "receipt of another": lambda c: c.ledger.save_receipt(
            CHAT, json.dumps({"planId": "p", "conversationId": BAD}).encode(), generation=1),
        "no record of it": lambda c: c.ledger.save_observation(CHAT, "p", 1, 5),
        "closed": lambda c: (c.ledger.close(), c.ledger.append(CHAT, "t9", NEW)),
        "read only": lambda c: Ledger.open(c.path, read_only=True).append(CHAT, "t9", NEW),
        "plan again": lambda c: c.ledger.save_plan(replace(plan_of(c), preserved_ids=(BAD,))),
        "plan without runs": lambda c: c.ledger.save_plan(replace(plan_of(c), plan_id="p9", runs=())),
        "blank summary": lambda c: deliver(c, replace(record_of(c), summary_text=" ")),
        "summary of none": lambda c: deliver(c, record_of(c, source_ids=())),
        "invented constraint": lambda c: deliver(c, record_of(c, required_constraint_ids=("C1", "C9"))),
        "other sources": lambda c: deliver(c, record_of(c, source_ids=(BAD, *record_of(c).source_ids[1:]))),
        "surrogate in a summary": lambda c: deliver(c, replace(record_of(c), summary_text=f"{WORD['decision']}\ud800")),
        "stale summary": _after(
            lambda c: c.ledger.edit(CHAT, "u1", Message("user", None, WORD["text"])), lambda c: deliver(c, record_of(c))
        ),
        "other generation": _after(lambda c: c.ledger.new_generation(CHAT), lambda c: deliver(c, record_of(c))),
    }  # fmt: skip


def _damages() -> dict[str, Act]:
    """Return reads of rows that were damaged, words and all."""
    word = WORD["text"]
    return {
        "message": _after(_damage(f"UPDATE message SET body = '{word}'"), lambda c: list(c.ledger.turns(CHAT))),
        "message bytes": _after(
            _damage(f"UPDATE message SET body = CAST(x'ff' || '{word}' AS TEXT)"), lambda c: list(c.ledger.turns(CHAT))
        ),
        "message verified": _after(_damage(f"UPDATE message SET body = '{word}'"), _verify),
        "part": _after(_damage(f"UPDATE part SET body = CAST('{word}' AS BLOB)"), lambda c: c.ledger.policy(CHAT)),
        "part verified": _after(_damage(f"UPDATE part SET body = CAST('{word}' AS BLOB)"), _verify),
        "constraint": _after(_damage("UPDATE part SET salt = x'00'"), lambda c: c.ledger.view(CHAT)),
        "plan": _after(_damage("UPDATE plan SET body = '{'"), lambda c: c.ledger.active_plan(CHAT)),
        "planning": _after(
            _damage(f"UPDATE message SET body = '{word}'"), lambda c: chat_of(c.ledger, CHAT).plan(request())
        ),
        "proposing": _after(
            _damage(f"UPDATE message SET body = '{word}'"), lambda c: c.compactor().propose(replace_active=True)
        ),
        "accepting": _after(
            _damage(f"UPDATE message SET body = '{word}'"), lambda c: c.compactor().accept(c.plan_id, 0, answer())
        ),
    }  # fmt: skip


def _said(**fields: Any) -> Act:
    """Return the delivery of an answer some of whose fields are others."""
    return lambda chat: chat.compactor().accept(chat.plan_id, 0, answer(**fields))


def _raw(text: str | None, **more: Any) -> Act:
    return lambda chat: chat.compactor().accept(chat.plan_id, 0, text, **more)


def _answers() -> dict[str, Act]:
    """Return what a model may say and none of which is taken."""
    word, sources = WORD["decision"], ["m5"]
    return {
        "no JSON": _raw(f"Here it is: {word}"),
        "broken JSON": _raw(answer()[:-1]),
        "text around": _raw(f"{answer()} {word}"),
        "a list": _raw(f'["{word}"]'),
        "twice": _raw(answer().replace("{", '{"goal": "x", ', 1)),
        "a surrogate": _raw(f"{word}\ud800"),
        "none": _raw(None),
        "cut off": _raw(answer(), finish="length"),
        "another key": _said(**{word: word}),
        "goal no text": _said(goal=[word]),
        "goal not said": _said(goal=f"Buy {word} 17 in Paris.txt."),
        "unknown label": _said(decisions=[{"text": word, "sources": [word]}]),
        "no sources": _said(decisions=[{"text": word}]),
        "invented number": _said(decisions=[{"text": f"{word} costs 777 euro", "sources": sources}]),
        "invented file": _said(evidence=[{"text": f"See {word}.txt.", "sources": sources}]),
        "invented excerpt": _said(evidence=[{"text": word, "sources": sources, "excerpt": f"{word} {word}"}]),
        "invented reference": _said(evidence=[{"text": word, "sources": sources, "archive_ref": f"{word}/{word}"}]),
        "invented owner": _said(open_actions=[{"text": "Do.", "status": "pending", "owner": f"{word} {word}"}]),
        "status": _said(open_actions=[{"text": "Do.", "status": word}]),
        "fact key": _said(evidence=[{"text": word, "sources": sources, "fact_key": f"{word} {word}"}]),
        "fact value": _said(evidence=[{"text": word, "sources": sources, "fact_value": f"{word} 99"}]),
        "unknown item": _said(open_actions=[{"text": "Do.", "status": "pending", "id": word}]),
        "item forgotten": _said(open_actions=[]),
        "constraint forgotten": _said(constraints=[]),
        "constraint invented": _said(constraints=[{"id": word}, {"id": "C1"}]),
        "decided and asked": _said(questions=[{"text": f"Use the {word} plan.", "sources": sources}]),
        "only the assistant": _said(decisions=[{"text": WORD["excerpt"], "sources": ["m6"]}]),
    }


def _compactions() -> dict[str, Act]:
    """Return refusals of the compactor that no answer causes, and late answers."""
    edited = Message("user", None, WORD["text"])
    return {
        "off": lambda c: c.compactor(switches=Switches(store=False)).propose(),
        "model off": lambda c: c.compactor(switches=Switches(model=False)).accept(c.plan_id, 0, answer()),
        "unknown plan": lambda c: c.compactor().accept(BAD, 0, answer()),
        "unknown run": lambda c: c.compactor().accept(c.plan_id, 9, answer()),
        "unknown summary": lambda c: c.compactor().readopt(BAD),
        "late": _after(lambda c: c.ledger.edit(CHAT, "u1", edited), _raw(answer())),
        "later page": _after(lambda c: c.ledger.new_generation(CHAT), _raw(answer())),
        "spent": _after(lambda c: [_raw(WORD["decision"])(c) for _ in range(2)], _raw(answer())),
        "trial": lambda c: c.compactor().trial([f"{WORD['decision']}"]),
        "nothing": _after(lambda c: c.ledger.protect(CHAT, "u0", "audit-evidence"),
                          lambda c: c.compactor().trial([answer()])),
        "read only": lambda c: replace_ledger(c).propose(),
    }  # fmt: skip


def replace_ledger(chat: Chat) -> Any:
    """Return the compactor of the same ledger, opened for reading."""
    return Chat(Ledger.open(chat.path, read_only=True), chat.path).compactor()


def _plans() -> dict[str, Act]:
    """Return refusals of planning from the ledger."""

    def planned(**fields: Any) -> Act:
        return lambda chat: chat_of(chat.ledger, CHAT).plan(request(**fields))

    return {
        "turns sent": lambda c: chat_of(c.ledger, CHAT).plan(request(turns=tuple(c.ledger.turns(CHAT)))),
        "too small": planned(max_input_tokens=80),
        "nothing fits": planned(max_input_tokens=66),
        "surrogate": planned(request=CurrentRequest(id="q", text=f"{WORD['question']}\ud800")),
        "no id": planned(request=CurrentRequest(id=BAD, text=WORD["question"])),
        "turn of another": planned(request=CurrentRequest(id="q", turn_id="t1", text=WORD["question"])),
        "other text": planned(request=CurrentRequest(turn_id="t3", text=WORD["question"])),
        "citation": planned(request=CurrentRequest(id="q", text=WORD["question"], requires_citation=True)),
        "old generation": lambda c: chat_of(c.ledger, CHAT).plan(request(), generation=9),
        "unknown": lambda c: chat_of(c.ledger, BAD).plan(request()),
    }


BRANCHES: dict[str, Act] = {
    f"{group}/{name}": act
    for group, found in (
        ("id", _half_ids()), ("write", _writes()), ("damage", _damages()), ("answer", _answers()),
        ("compaction", _compactions()), ("plan", _plans()),
    )
    for name, act in found.items()
}  # fmt: skip
