"""Make fixtures/ledgers/schema_<n>.db: one small ledger of the newest schema, to be opened by every later version.

    python tools/ledger_fixture/make.py            write the file
    python tools/ledger_fixture/make.py --check    compare the file with one that is made now, row by row

A file of a past schema is never made again; tests/ledger opens each of them.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import apsw

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from planner.ledger.ledger import Ledger
from planner.ledger.legacy import LegacyRecord
from planner.ledger.schema import migrations
from planner.ledger.stored import Active, Checked
from planner.values.check_summary import run_of
from planner.values.compaction import STRATEGY_VERSION, CompactionPlan
from planner.values.resolution import FactDecision
from planner.values.summary import ConfirmedFact, StateEntry, SummaryRecord, SummaryState
from planner.values.turn import Message, MustPreserve, OpenItem, ToolCall, ToolResult

TARGET = ROOT / "fixtures" / "ledgers" / f"schema_{len(migrations())}.db"


def _counted() -> Callable[[int], bytes]:
    """Return a source of salts that gives the same ones each time."""
    numbers = count()
    return lambda size: sha256(f"fixture {next(numbers)}".encode()).digest()[:size]


def fill(ledger: Ledger) -> None:
    """Write conversations with every kind of event the schema knows beside rejected summaries."""
    for number in range(4):
        messages = [Message("user", f"u{number}", f"Question {number}?"),
                    Message("assistant", f"a{number}", f"Answer {number}.")]  # fmt: skip
        ledger.append("desk", f"t{number}", messages, state="completed")
    call = ToolCall("k1", "look_up", {"q": "hall", "limit": 3})
    ledger.append("desk", "t4", [
        Message("user", "u4", "Only read the selected files.", source="app"),
        Message("assistant", "a4", tool_calls=(call,)),
        Message("tool", "r4", tool_result=ToolResult("k1", "Hall 3, 40 seats.", ("Hall 3",))),
        Message("assistant", "b4", "Hall 3 has 40 seats.", citation_ids=("s1",)),
    ], state="completed", must_preserve=[MustPreserve("C1", "Only read the selected files.")],
        open_items=[OpenItem("i1", "pending")], material="tool_result")  # fmt: skip
    ledger.append("desk", "t5", [Message("user", "u5", "You may write now."), Message("assistant", "a5", "Good.")],
                  state="completed", supersedes=["C1"])  # fmt: skip
    ledger.edit("desk", "u1", Message("user", None, "Question one?"))
    ledger.refuse("desk", "u2")
    ledger.set_item("desk", "t4", OpenItem("i1", "done"))
    ledger.append("desk", "t6", [Message("user", "u6", "Never mind.")])
    ledger.cancel("desk", "t6", actor="user")
    ledger.withdraw("desk", "t3")
    ledger.branch("desk", "try", at_turn_id="t5")
    ledger.switch("desk", "try")
    ledger.append("desk", "t7", [Message("user", "u7", "On the branch.")])
    ledger.store_policy("desk", b'{"policy":[{"id":"p","text":"Answer briefly."}]}')
    ledger.import_legacy("old", [LegacyRecord("l1", "Who said this?", None, "import")])
    ledger.append("old", "t1", [Message("user", "m1", "First."), Message("assistant", "m2", "Second.")],
                  state="completed")  # fmt: skip
    ledger.append("old", "t2", [Message("user", "m3", "Third."), Message("assistant", "m4", "Fourth.")],
                  state="completed")  # fmt: skip
    ledger.retain("old", 3, "fixture")
    _settle(ledger)


def _settle(ledger: Ledger) -> None:
    """Write a summary that states a fact, and how a dispute about it ended."""
    for number in range(3):
        messages = [Message("user", f"u{number}", f"The torque of bolt {number} is 5."),
                    Message("assistant", f"a{number}", "Noted.")]  # fmt: skip
        ledger.append("bolts", f"t{number}", messages, state="completed")
    view, turns = ledger.view("bolts"), tuple(ledger.turns("bolts"))
    run = run_of(turns[:2], ())
    ledger.save_plan(CompactionPlan("c1", "bolts", "main", view.generation, view.revision, "v1", STRATEGY_VERSION,
                                    (run,), ("u2", "a2"), event=view.event))  # fmt: skip
    entry = StateEntry("The torque is 5.", message_ids=("u0",))
    ledger.save_summary(SummaryRecord(
        id="s1", plan_id="c1", conversation_id="bolts", source_generation=view.generation,
        source_revision=view.revision, source_ids=run.source_ids, source_versions=run.source_versions,
        source_fingerprint=run.source_fingerprint, protected_fingerprint=run.protected_fingerprint,
        covers_from=run.covers_from, covers_to=run.covers_to, through_sequence=run.through_sequence,
        summary_version=1, policy_version="v1", strategy_version=STRATEGY_VERSION,
        summary_text="Known: The torque is 5.", state=SummaryState("Fix the bolts.", evidence=(entry,)),
        confirmed_facts=(ConfirmedFact("e1", entry.text, "torque", "5", ("u0",)),),
    ), "c1", Checked(view.event, Active("v1")))  # fmt: skip
    ledger.resolve_fact("bolts", FactDecision("torque", "replace", "user", "click-1", "6", "The torque is 6.", "sheet"))


def make(path: Path) -> None:
    """Make the ledger at a path, alone: without -wal, lock and anchor beside it."""
    real = secrets.token_bytes
    secrets.token_bytes = _counted()  # type: ignore[assignment]
    try:
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "ledger"
            with Ledger.open(made) as ledger:
                fill(ledger)
            path.write_bytes(made.read_bytes())
    finally:
        secrets.token_bytes = real


def dump(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows and the schema of a ledger, in a fixed order; the file is not changed."""
    connection = apsw.Connection(f"{path.absolute().as_uri()}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY
                                 | apsw.SQLITE_OPEN_URI)  # fmt: skip
    found: dict[str, list[tuple[Any, ...]]] = {
        "schema": connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall(),
        "marks": [(connection.pragma("application_id"), connection.pragma("user_version"))],
    }
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall():
        rows = connection.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608 - names of the schema itself
        found[str(name)] = sorted(rows, key=repr)
    connection.close()
    return found


def main(arguments: list[str]) -> int:
    """Make or check the file; returns the exit status."""
    if arguments == ["--check"]:
        with tempfile.TemporaryDirectory() as folder:
            fresh = Path(folder) / "fresh.db"
            make(fresh)
            old, new = dump(TARGET), dump(fresh)
        wrong = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
        if wrong:
            sys.stderr.write(f"{TARGET.name} differs from what is made now: {', '.join(wrong)}\n")
        return 1 if wrong else 0
    if arguments:
        sys.stderr.write(__doc__ or "")
        return 2
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    make(TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
