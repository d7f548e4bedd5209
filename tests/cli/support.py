"""Run the command as a user does: a process with its streams, or in this process where speed matters."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "fixtures" / "demo"
REQUEST = DEMO / "building_desk.request.json"
CHAT = DEMO / "building_desk.chat.json"
TOOLS = DEMO / "building_desk.tools.json"


@dataclass(frozen=True, slots=True)
class Done:
    """What a user has after a command."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Stdout as text."""
        return self.out.decode()

    @property
    def json(self) -> Any:
        """Stdout as JSON."""
        return json.loads(self.out)


def planner(*arguments: str | Path, stdin: bytes = b"", cwd: Path = ROOT, env: dict[str, str] | None = None) -> Done:
    """Run `planner` with these arguments in its own process."""
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from planner.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), *map(str, arguments)],
        input=stdin, capture_output=True, check=False, cwd=cwd, env=env,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr.decode())


def unread(*arguments: str) -> tuple[int, str]:
    """Run `planner` with a reader of its output that goes away; return the exit code and stderr."""
    code = "from planner.cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        error = running.stderr.read().decode()
    return running.returncode, error


def closing(descriptors: str, *arguments: str | Path) -> Done:
    """Run `planner` from a shell that closes these streams: 0, 1, 2 or several of them."""
    code = "from planner.cli.main import main; main()"
    given = " ".join(shlex.quote(str(one)) for one in (sys.executable, "-c", code, *arguments))
    closed = " ".join(f"{one}>&-" if one != "0" else "<&-" for one in descriptors)
    done = subprocess.run(["sh", "-c", f"{given} {closed}"], capture_output=True, check=False, cwd=ROOT)
    return Done(done.returncode, done.stdout, done.stderr.decode())


def imported_by(arguments: Sequence[str], names: str) -> str:
    """Return which of `names` are loaded after a command line has run, as the process sees it."""
    code = (
        "import sys\nfrom planner.cli.main import run\n"
        f"code = run({list(arguments)!r})\n"
        f"print(code, [name for name in {names.split()!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, cwd=ROOT)
    return done.stderr.decode().strip()


def small_request(**fields: Any) -> bytes:
    """Return a request for the embedded bundle that fits easily."""
    tree = {
        "modelBundleId": "reference",
        "maxInputTokens": 400,
        "reservedOutputTokens": 40,
        "policy": [{"id": "tone", "text": "Answer in one sentence."}],
        "turns": [
            {
                "id": "t1",
                "sequence": 1,
                "state": "completed",
                "messages": [
                    {"id": "m1", "role": "user", "text": "How many moons has Mars?"},
                    {"id": "m2", "role": "assistant", "text": "Two."},
                ],
            }
        ],
        "request": {"id": "q", "text": "And Venus?"},
    }
    return json.dumps(tree | fields).encode()
