"""Words that must never come out: one for each channel, a ledger that holds them all, and where they are looked for."""

from __future__ import annotations

import io
import json
import logging
import shutil
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from planner.compaction.call import PromptedRun
from planner.compactor.service import Compactor
from planner.compactor.shown import Choices
from planner.ledger.ledger import Ledger
from planner.ledger.legacy import LegacyRecord
from planner.values.request import CurrentRequest, PlanRequest, TextItem
from planner.values.turn import Message, MustPreserve, OpenItem, Part, ToolCall, ToolResult
from tests.crash.toy_planner import POLICY, toy

CHAT = "c"
NAMES = (
    "text", "part", "reasoning", "argument", "argument key", "result", "short form", "constraint", "policy", "goal",
    "question", "decision", "excerpt", "owner", "archive ref", "fact value", "legacy", "id",
)  # fmt: skip
# The words of the summary's own channels stand in the material too, because a sound summary has no words of its own.
WORD = {name: f"kestrel{number}x" for number, name in enumerate(NAMES)}
ALLOWED = {("message", "body"), ("part", "body"), ("summary", "body")}


def hits(text: object) -> list[str]:
    """Return the channels whose word stands in a text or in bytes."""
    data = text if isinstance(text, bytes) else str(text).encode("utf-8", "backslashreplace")
    return [name for name, word in WORD.items() if word.encode() in data]


def messages(number: int) -> list[Message]:
    """Return a turn with a word in every channel that a turn has."""
    if number:
        return [
            Message("user", f"u{number}", f"We decided to use the {WORD['decision']} plan."),
            Message(
                "assistant",
                f"a{number}",
                f"The {WORD['fact value']} is 12. {WORD['excerpt']} is mine. Its ref is {WORD['archive ref']}.",
            ),
        ]
    call = ToolCall("k", "find", {WORD["argument key"]: WORD["argument"]})
    return [
        Message("user", "u0", f"Is {WORD['owner']} the owner of {WORD['text']}?"),
        Message("assistant", "a0", None, tool_calls=(call,), reasoning=WORD["reasoning"]),
        Message("tool", "r0", tool_result=ToolResult("k", f"{WORD['result']} ref: {WORD['archive ref']}",
                                                     (WORD["short form"],))),
        Message("assistant", "b0", parts=(Part("text", WORD["part"]),)),
    ]  # fmt: skip


def choices() -> Choices:
    """Return choices whose goal is a word."""
    return Choices(POLICY, tail_turns=1, goal=f"Find the {WORD['goal']}.", risk="low")


def request(**fields: Any) -> PlanRequest:
    """Return a request with words in policy and question."""
    return PlanRequest(**{
        "model_bundle_id": toy().bundle_id, "policy": (TextItem("p", WORD["policy"]),), "policy_version": POLICY,
        "request": CurrentRequest(id="q", text=WORD["question"]), "max_input_tokens": 4_000,
        "reserved_output_tokens": 64, **fields,
    })  # fmt: skip


def answer(**fields: Any) -> str:
    """Return a summary of the first two turns that passes every check, words in each channel; fields replace parts."""
    return json.dumps({
        "goal": f"We decided to use the {WORD['decision']} plan.",
        "decisions": [{"text": f"Use the {WORD['decision']} plan.", "sources": ["m5"], "excerpt": WORD["decision"],
                       "fact_key": "plan", "fact_value": WORD["decision"]}],
        "constraints": [{"id": "C1"}],
        "open_actions": [{"text": "Finish it.", "status": "pending", "id": "i1", "owner": WORD["owner"],
                          "sources": ["m1"]}],
        "questions": [{"text": f"Is {WORD['owner']} the owner of {WORD['text']}?", "sources": ["m1"]}],
        "evidence": [{"text": f"{WORD['excerpt']} is mine.", "sources": ["m6"], "excerpt": f"{WORD['excerpt']} is mine",
                      "archive_ref": WORD["archive ref"], "fact_key": "k", "fact_value": WORD["fact value"]}],
        **fields,
    })  # fmt: skip


@dataclass
class Chat:
    """A ledger in use, with its compaction plan; `prompts` are the calls of its runs."""

    ledger: Ledger
    path: Path
    plan_id: str = ""
    prompts: tuple[PromptedRun, ...] = field(default=(), repr=False)

    def compactor(self, **fields: Any) -> Compactor:
        """Return the compactor of the conversation."""
        return Compactor(self.ledger, CHAT, choices(), **fields)


def build(path: Path, *, summarised: bool) -> str:
    """Make the ledger with a word in every channel, a plan over two turns, with or without its summary."""
    with Ledger.open(path) as ledger:
        marks = [MustPreserve("C1", WORD["constraint"])]
        items = [OpenItem("i1", "pending")]
        ledger.append(CHAT, "t0", messages(0), state="completed", must_preserve=marks, open_items=items)
        ledger.append(CHAT, "t1", messages(1), state="completed")
        ledger.append(CHAT, "t2", messages(2), state="completed")
        ledger.append(CHAT, "t3", [Message("user", "u3", WORD["text"])], state="open")
        ledger.store_policy(CHAT, f'{{"policy":"{WORD["policy"]}"}}'.encode())
        ledger.import_legacy(CHAT, [LegacyRecord("l1", WORD["legacy"])])
        compactor = Compactor(ledger, CHAT, choices())
        plan = compactor.propose()
        assert getattr(plan, "runs", ()), plan
        if summarised:
            saved = compactor.accept(plan.plan_id, 0, answer())  # type: ignore[union-attr]
            assert getattr(saved, "status", None) == "accepted", saved
    return plan.plan_id  # type: ignore[union-attr]


@contextmanager
def opened(source: Path, place: Path, plan_id: str, **fields: Any) -> Iterator[Chat]:
    """Open a copy of a built ledger."""
    place.mkdir()
    for name in ("ledger", "ledger-anchor"):
        shutil.copy(source.parent / name, place / name)
    ledger = Ledger.open(place / "ledger", **fields)
    try:
        yield Chat(ledger, place / "ledger", plan_id)
    finally:
        ledger._store.fail = lambda _: None
        ledger.close()


@contextmanager
def overheard() -> Iterator[dict[str, Any]]:
    """Collect what is printed and logged, at DEBUG, and what is raised."""
    out, log = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    heard: dict[str, Any] = {"error": None, "result": None}
    try:
        with redirect_stdout(out), redirect_stderr(out):
            try:
                yield heard
            except Exception as error:
                heard["error"] = error
                logging.getLogger("application").exception("a call failed")
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    heard["printed"], heard["logged"] = out.getvalue(), log.getvalue()


def of_error(error: BaseException | None, seen: frozenset[int] = frozenset()) -> Iterator[object]:
    """Yield everything that hangs on an exception."""
    if error is None or id(error) in seen:
        return
    yield from (error.args, repr(error), str(error), getattr(error, "__notes__", ()), vars(error))
    yield "".join(traceback.format_exception(error))
    for other in (error.__cause__, error.__context__):
        yield from of_error(other, seen | {id(error)})


def leaks(chat: Chat, heard: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return where words came out: place and channels."""
    places: list[tuple[str, object]] = [("printed", heard["printed"]), ("logged", heard["logged"])]
    places += [("raised", part) for part in of_error(heard["error"])]
    places.append(("repr of the result", repr(heard["result"])))
    places += rows(chat.path)
    for entry in chat.path.parent.iterdir():
        places.append(("a file's name", entry.name))
        if entry.name not in ("ledger", "ledger-wal", "ledger-shm"):
            places.append((entry.name, entry.read_bytes()))
    return [(place, found) for place, text in places if (found := hits(text))]


def rows(path: Path) -> list[tuple[str, object]]:
    """Return every value of every table that may hold no text, as (table.column, value)."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found: list[tuple[str, object]] = []
    for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        names = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]
        names = [name for name in names if (table, name) not in ALLOWED]
        for row in connection.execute(f"SELECT {', '.join(names)} FROM {table}"):
            found += [(f"{table}.{name}", value) for name, value in zip(names, row, strict=True) if value is not None]
    connection.close()
    return found
