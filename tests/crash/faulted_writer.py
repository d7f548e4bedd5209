"""A writer that goes on after faults: appends turns, tells what was acknowledged and what failed, and ends by itself.

`python -m tests.crash.faulted_writer PATH TURNS`
"""

from __future__ import annotations

import sys
from pathlib import Path

from planner.ledger.ledger import Ledger
from planner.values.reasons import PlannerFault
from tests.crash.support import CHAT, check_alone, said

TRIES = 4


def tried(call: object, *args: object, **fields: object) -> object:
    """Call something up to four times, and say each fault; None where none of them went through."""
    for _ in range(TRIES):
        try:
            return call(*args, **fields)  # type: ignore[operator]
        except PlannerFault as fault:
            check_alone(fault)
            print("fault", fault.code, flush=True)
    return None


def main(path: Path, turns: int) -> None:
    """Write, close and open again half way, write on; end at the first turn that none of the tries could store."""
    number = 0
    for end in (turns, 2 * turns):
        ledger = tried(Ledger.open, path)
        if ledger is None:
            break
        assert isinstance(ledger, Ledger)
        while number < end and tried(ledger.append, CHAT, f"t{number}", said(number), state="completed") is not None:
            print("ack", number, flush=True)
            number += 1
        ledger.close()
        if number < end:
            break
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
