"""`planner verify` and `planner replay` of a call that was made after a retention run (R146, R186, R201)."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.ledger.ledger import Ledger
from planner.values.turn import Message, MustPreserve
from tests.cli.ledger_support import here, model_server

Capture = pytest.CaptureFixture[bytes]
BUNDLE = ("--bundle", "reference")


def _turn(ledger: Ledger, number: int, *, marks: tuple[str, ...] = (), back: tuple[str, ...] = ()) -> None:
    messages = [
        Message("user", f"u{number}", f"Please use paint {number} for frame {number}. " * 6),
        Message("assistant", f"a{number}", "Fine. " * 40),
    ]
    kept = [MustPreserve(name, f"keep {name}") for name in marks]
    ledger.append("c1", f"t{number}", messages, state="completed", must_preserve=kept, supersedes=back)


@pytest.fixture
def where(tmp_path: Path, capsysbinary: Capture) -> tuple[str, ...]:
    """A purged conversation: a constraint in force, a withdrawal and a border rest on what is gone."""
    options = ("--ledger", str(tmp_path / "a.db"), "--conversation", "c1")
    with Ledger.open(options[1]) as ledger:
        for number in range(8):
            _turn(ledger, number, marks=("C1", "C2") if number == 0 else (), back=("C2",) if number == 6 else ())
        ledger.store_policy("c1", b'{"policyVersion":"v1"}')
    with model_server() as model:
        run = ("compact", "run", *options, "--risk", "low", "--tail", "2", "--url", model.url)
        assert 0 == here(capsysbinary, *run).code
    with Ledger.open(options[1]) as ledger:
        ledger.retain("c1", 12, "30-days")
        ledger.append("c1", "asked", [Message("user", "ua", "And now?")])
    return options


@pytest.mark.parametrize("window", ["6000", "1400"])
def test_a_call_after_retention_is_verified_and_replayed(
    where: tuple[str, ...], window: str, tmp_path: Path, capsysbinary: Capture
) -> None:
    """What purged turns left in force is no difference; once the conversation went on, it is said to be missing."""
    sizes = (*BUNDLE, "--window", window, "--reserve", "64")
    file, receipt = tmp_path / "plan.json", tmp_path / "receipt.json"
    planned = here(capsysbinary, "plan", *where, *sizes, "--plan-file", file, "--receipt", receipt, "--json")
    assert "constraint/C1" in planned.json["kept"]
    assert any(name.startswith("summary/") for name in planned.json["kept"])
    checked = here(capsysbinary, "verify", file, *where, *sizes)
    assert (0, "") == (checked.code, checked.err)
    replay = ("replay", receipt, *where[:2])
    replayed = here(capsysbinary, *replay)
    assert (0, "") == (replayed.code, replayed.err)
    with Ledger.open(where[1]) as ledger:
        ledger.append("c1", "asked", [Message("assistant", "aa", "Now go.")], state="completed")
    gone = here(capsysbinary, *replay)
    assert 2 == gone.code
    assert gone.err.startswith("context plan rejected: part_missing:history: turns up to sequence 10 were purged")
