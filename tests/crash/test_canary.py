"""Words of a conversation come out nowhere: not by refusals, not by faults, not by what is stored (threats.md §2.9).

Each pair is one channel and one branch; every branch is tried with words in all channels at once.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from planner.compactor.shown import Trial
from planner.ledger.facts import TABLE_OF
from planner.ledger.ledger import Ledger
from planner.ledger.legacy import LegacyRecord
from planner.ledger.schema import migrations
from planner.ledger.stored import Active, Saved
from planner.ledger.verify import Report
from planner.values.compaction import Rejected, Staleness
from planner.values.plan import Refusal
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.resolution import FactDecision
from planner.values.turn import Message, MustPreserve, OpenItem, Part
from planner.wire.dump import dump_refusal
from tests.crash.canary import CHAT, NAMES, WORD, Chat, answer, build, choices, hits, leaks, opened, overheard, request
from tests.crash.canary_branches import BRANCHES, NEW, deliver, record_of
from tests.crash.support import FULL, ROOT, tell
from tests.crash.toy_planner import POLICY, chat_of

ENDS = (PlannerFault, RefusalSignal)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, tuple[Path, str]]:
    """The ledger with a word in every channel, without and with its summary."""
    found = {}
    for summarised in (False, True):
        path = tmp_path_factory.mktemp("canary") / "ledger"
        found[summarised] = (path, build(path, summarised=summarised))
    return found


def refused(heard: dict[str, Any]) -> bool:
    """Tell whether a call ended in a refusal of any kind."""
    error, result = heard["error"], heard["result"]
    if error is not None:
        return isinstance(error, ENDS)
    if isinstance(result, Refusal):
        heard["printed"] += dump_refusal(result).decode() + repr(result.receipt)
    late = isinstance(result, Saved) and result.status != "accepted"
    return late or isinstance(result, Rejected | Refusal | Trial | Report)


@pytest.mark.parametrize("branch", BRANCHES)
def test_no_refusal_tells_a_word(built: dict[bool, tuple[Path, str]], tmp_path: Path, branch: str) -> None:
    """Output, logs, exception with all that hangs on it, result, rows outside the three bodies, names: no word."""
    with opened(built[False][0], tmp_path / "copy", built[False][1]) as chat:
        with overheard() as heard:
            heard["result"] = BRANCHES[branch](chat)
        assert refused(heard), (heard["error"], heard["result"])
        assert [] == leaks(chat, heard)


OPERATIONS: dict[str, tuple[bool, Callable[[Chat], Any]]] = {
    "open": (False, lambda c: Ledger.open(c.path.with_name("fresh"), failpoint=c.ledger._store.fail)),
    "begin": (False, lambda c: c.ledger.append("other", "t1", NEW, state="completed")),
    "append": (False, lambda c: c.ledger.append(CHAT, "t9", NEW, state="completed", supersedes=["C1"])),
    "end": (False, lambda c: c.ledger.append(
        CHAT, "t3", [Message("assistant", "a3", WORD["part"])], state="completed")),
    "state": (False, lambda c: (
        c.ledger.append(CHAT, "t3", [Message("assistant", "a3", "x")]), c.ledger.set_state(CHAT, "t3", "completed"))),
    "material": (False, lambda c: c.ledger.append(CHAT, "t3", [], material="code")),
    "edit": (False, lambda c: c.ledger.edit(CHAT, "u1", Message("user", None, WORD["text"]))),
    "protect": (False, lambda c: c.ledger.protect(CHAT, "u1", "audit-evidence")),
    "refuse": (False, lambda c: c.ledger.refuse(CHAT, "u1")),
    "mark": (False, lambda c: c.ledger.mark(CHAT, "t1", [MustPreserve("C2", WORD["constraint"])])),
    "supersede": (False, lambda c: c.ledger.supersede(CHAT, "t1", ["C1"])),
    "item": (False, lambda c: c.ledger.set_item(CHAT, "t1", OpenItem("i2", "pending"))),
    "resolve": (True, lambda c: c.ledger.resolve_fact(
        CHAT, FactDecision("plan", "replace", "user", "click-1", f"{WORD['fact value']} 2", WORD["text"]))),
    "cancel": (False, lambda c: c.ledger.cancel(CHAT, "t3", actor="user")),
    "withdraw": (False, lambda c: c.ledger.withdraw(CHAT, "t1")),
    "branch": (False, lambda c: (c.ledger.branch(CHAT, "b", at_turn_id="t1"), c.ledger.switch(CHAT, "b"))),
    "resend": (False, lambda c: c.ledger.resend(CHAT, "t3")),
    "page": (False, lambda c: c.ledger.new_generation(CHAT)),
    "policy": (False, lambda c: c.ledger.store_policy(CHAT, WORD["policy"].encode())),
    "legacy": (False, lambda c: c.ledger.import_legacy(CHAT, [LegacyRecord("l2", WORD["legacy"], "user", "old")])),
    "propose": (False, lambda c: c.compactor().propose(replace_active=True)),
    "adopt": (True, lambda c: (c.ledger.new_generation(CHAT), c.ledger.adopt_current(CHAT, Active(POLICY)))),
    "reject": (False, lambda c: c.compactor().accept(c.plan_id, 0, WORD["decision"])),
    "accept": (False, lambda c: c.compactor().accept(c.plan_id, 0, answer())),
    "save": (False, lambda c: deliver(c, record_of(c))),
    "invalidate": (True, lambda c: c.ledger.invalidate(CHAT, [Staleness(f"{c.plan_id}.0", "source_changed", "u1")])),
    "readopt": (True, lambda c: (c.ledger.new_generation(CHAT), c.compactor().readopt(f"{c.plan_id}.0"))),
    "plan": (True, lambda c: chat_of(c.ledger, CHAT).plan(request())),
    "observe": (True, lambda c: c.ledger.save_observation(
        CHAT, chat_of(c.ledger, CHAT).plan(request()).receipt.plan_id, 1, 9)),
    "part": (False, lambda c: c.ledger.put_part(CHAT, "kind", WORD["text"].encode())),
    "retain": (True, lambda c: c.ledger.retain(CHAT, 5, "policy")),
    "rebuild": (True, lambda c: c.ledger.verify(rebuild=True)),
    "close": (False, lambda c: c.ledger._store.checkpoint()),
}  # fmt: skip


def points_of(built: dict[bool, tuple[Path, str]], place: Path, name: str) -> list[str]:
    """Return the failpoints an operation passes, in order."""
    summarised, act = OPERATIONS[name]
    passed: list[str] = []
    with opened(built[summarised][0], place, built[summarised][1]) as chat:
        chat.ledger._store.fail = passed.append
        act(chat)
    return passed


def broken_at(point: str, number: int) -> Callable[[str], None]:
    """Return a failpoint that lets the disk fail at one point, with a word on the error."""
    left = [number]

    def fail(name: str) -> None:
        if point == "in_rollback" and name == "before_commit":
            raise apsw.IOError(WORD["text"])
        if name == point:
            left[0] -= 1
            if left[0] == 0:
                raise apsw.IOError(WORD["text"])

    return fail


@pytest.fixture(scope="module")
def passed(built: dict[bool, tuple[Path, str]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The failpoints that each operation passes."""
    folder = tmp_path_factory.mktemp("points")
    return {name: points_of(built, folder / name, name) for name in OPERATIONS}


def test_every_named_failpoint_is_passed(passed: dict[str, list[str]]) -> None:
    """Each failpoint that the ledger's code names lies on the way of some operation here, but the rollback's own."""
    named: set[str] = set()
    for path in sorted((ROOT / "planner" / "ledger").glob("*.py")):
        named |= set(re.findall(r'\.?fail\("([a-z_0-9]+)"\)', path.read_text(encoding="utf-8")))
    # No call writes an event of the kind `material`: a changed material is a changed state of the turn.
    named |= {f"after_{kind}" for kind in TABLE_OF if kind != "material"}
    named |= {f"migrate_after_{number}" for number, _ in enumerate(migrations(), 1)}
    assert named - {"in_rollback"} == {name for found in passed.values() for name in found}


def test_no_failpoint_tells_a_word(
    built: dict[bool, tuple[Path, str]], passed: dict[str, list[str]], tmp_path: Path, seed: int
) -> None:
    """The disk fails at each step of each operation: a named fault, or `failed`, and no word anywhere.

    A sample by default; every step with PLANNER_FULL=1.
    """
    tell(seed, "tests/crash/test_canary.py", PLANNER_FULL=int(FULL))
    cases = [
        (name, point, found[: place + 1].count(point))
        for name, found in passed.items()
        for place, point in enumerate([*found, "in_rollback"] if "before_commit" in found else found)
    ]
    cases = [(name, point, max(number, 1)) for name, point, number in cases]
    if not FULL:
        cases = random.Random(seed).sample(cases, 60)
    unnoticed = []
    for place, (name, point, number) in enumerate(cases):
        summarised, act = OPERATIONS[name]
        with opened(built[summarised][0], tmp_path / str(place), built[summarised][1]) as chat:
            chat.ledger._store.fail = broken_at(point, number)
            with overheard() as heard:
                heard["result"] = act(chat)
            chat.ledger._store.fail = lambda _: None
            if heard["error"] is None and not refused(heard):
                unnoticed.append((name, point))
            assert heard["error"] is None or isinstance(heard["error"], PlannerFault), (name, point, heard["error"])
            assert [] == leaks(chat, heard), (name, point)
    assert [] == unnoticed
    print(f"{(len(cases) + len(BRANCHES)) * len(NAMES)} pairs of {len(NAMES)} channels, 0 hits")


def test_what_was_purged_is_in_no_byte_of_the_files(built: dict[bool, tuple[Path, str]], tmp_path: Path) -> None:
    """After a retention run no word of purged turns, withdrawn constraints, requests and stale summaries is left.

    What stands for the present stays: the policy, and the legacy record behind the border.
    """
    with opened(built[True][0], tmp_path / "copy", built[True][1]) as chat:
        chat_of(chat.ledger, CHAT).plan(request())
        chat.ledger.edit(CHAT, "u1", Message("user", None, "edited"))
        chat.ledger.append(CHAT, "t3", [Message("assistant", "a3", "x")], state="completed")
        chat.ledger.append(CHAT, "t4", [Message("user", "u4", "x"), Message("assistant", "a4", "x")],
                           state="completed", supersedes=["C1"])  # fmt: skip
        before = hits(chat.path.read_bytes() + chat.path.with_name("ledger-wal").read_bytes())
        assert set(NAMES) - {"id", "goal"} <= set(before)
        boundary = chat.ledger.retain(CHAT, chat.ledger.head(CHAT).last_sequence - 1, "policy-30-days")  # type: ignore[operator]
        assert boundary.cleared
        left = {entry.name: hits(entry.read_bytes()) for entry in chat.path.parent.iterdir()}
        assert {"policy"} == {name for found in left.values() for name in found}, left


def test_a_fault_that_keeps_its_cause_is_caught(
    built: dict[bool, tuple[Path, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted bug of P10: a fault raised from the storage's own error carries that error's words."""
    from planner.ledger import faults

    monkeypatch.setattr(faults, "fault_of", lambda error, doing: PlannerFault("ledger_io", str(error)))
    with opened(built[False][0], tmp_path / "copy", built[False][1]) as chat:
        chat.ledger._store.fail = broken_at("after_heads", 1)
        with overheard() as heard:
            OPERATIONS["append"][1](chat)
        assert ["raised", "logged"] == [place for place in ("raised", "logged") if place in dict(leaks(chat, heard))]


def test_no_value_shows_a_word(built: dict[bool, tuple[Path, str]], tmp_path: Path) -> None:
    """What the calls take and give back has no word in its repr: values stand in tracebacks and debuggers."""
    with opened(built[True][0], tmp_path / "copy", built[True][1]) as chat:
        view = chat.ledger.view(CHAT, active=Active(POLICY))
        (record,) = view.summaries
        compactor = chat.compactor()
        planned = chat_of(chat.ledger, CHAT).plan(request())
        shown = [
            view, record, record.state, record.state.evidence, record.state.open_actions, record.confirmed_facts,
            list(view.turns), view.constraints, [one.must_preserve for one in view.turns], choices(), compactor,
            compactor.status(), compactor.versions(), compactor.prompts(chat.ledger.active_plan(CHAT)),
            compactor.trial([answer()]), chat.ledger.active_plan(CHAT), request(), planned, planned.receipt,
            LegacyRecord("l9", WORD["legacy"]), chat.ledger, Part("text", WORD["part"]),
        ]  # fmt: skip
        found = {(type(one).__name__, name) for one in shown for name in hits(repr(one))}
        assert set() == found
