"""The engine of JavaScript applications: npm @huggingface/jinja, run by node in a process of its own.

The package is installed by whoever wants the answer (`npm install --prefix FOLDER @huggingface/jinja`); nothing is
fetched here. The process inherits no environment and ends within a limit of time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from planner.runtimes.renderers import Rendered
from planner.values.reasons import PlannerFault

PACKAGE = "@huggingface/jinja"
TRIED_VERSION = "0.5.11"
"""The version that our own tables were measured with."""
WALL_SECONDS = 30.0
_MAX_ANSWER_BYTES = 64 << 20
_SCRIPT = Path(__file__).parent / "npm_render.mjs"
_REASONS: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"^Cannot apply filter \"\w+\" to type: (Undefined|Null)Value", "a filter gets null or undefined"),
        (r"^Unknown \w*Value filter: |^Unknown filter|^Cannot apply filter", "it has no such filter for such a value"),
        (r"^Unknown test: ", "it has no such test"),
        (r"^Cannot call something that is not a function", "it has no such method for such a value"),
        (r"^Cannot perform operation|^Cannot concatenate|on (undefined|null) values?", "an operator gets null"),
        (r"^Expected iterable .*got StringValue", "a text is looped over letter by letter"),
        (
            r"^Cannot access property|^Cannot iterate|^Expected iterable",
            "null or undefined is looked up or looped over",
        ),
        (r"^Object keys must be strings", "an object has keys that are no strings"),
        (r"^Cannot unpack non-iterable type", "a tuple is unpacked"),
        (r"^(Parser Error|Expected|Unexpected|Unknown statement|Missing)", "it does not parse the template"),
    )
)
"""Messages of the engine and what we say instead: theirs may hold words of the template."""
OTHER = "it raises"


class NpmRenderer:
    """Renders through one installed package. `now` stands for the present in every render."""

    name = "npm"
    drops_bos = False
    switches: Mapping[str, Any] = {}

    def __init__(self, folder: Path, *, now: str = "2026-11-30T08:00:00Z") -> None:
        """Look for node and for the package below `folder`. Raises PlannerFault environment where one is absent."""
        self.now = now
        node = shutil.which("node")
        if node is None:
            raise PlannerFault("environment", "node is not installed, so the npm engine cannot be tried")
        self._node = node
        found = folder / "node_modules" / Path(PACKAGE)
        stated: Any = None
        with suppress(OSError, ValueError):
            stated = json.loads((found / "package.json").read_bytes())
        module = found / "dist" / "index.js"
        if not isinstance(stated, dict) or stated.get("name") != PACKAGE or not module.is_file():
            raise PlannerFault(
                "environment", f"{PACKAGE} is not installed there: npm install --prefix FOLDER {PACKAGE}"
            )
        self._module = module
        version = stated.get("version")
        self.version = version if isinstance(version, str) and re.fullmatch(r"[\w.+-]{1,40}", version) else "-"

    def render(
        self, source: str, strings: Mapping[str, str], cases: Sequence[Mapping[str, Any]]
    ) -> tuple[Rendered, ...]:
        """Render in one process. Raises PlannerFault environment where it gives no answer in time."""
        values = [{**strings, "documents": None, "add_generation_prompt": True, **one} for one in cases]
        job = {"module": str(self._module.resolve()), "source": source, "now": self.now, "cases": values}
        answers = self._run(json.dumps(job).encode())
        if not isinstance(answers, list) or len(answers) != len(cases):
            raise PlannerFault("environment", "the npm engine gave no valid answer")
        return tuple(map(_rendered, answers))

    def _run(self, job: bytes) -> Any:
        environment = {key: os.environ[key] for key in ("SYSTEMROOT",) if key in os.environ} | {
            "TZ": "UTC",
            "LANG": "C",
        }
        child: subprocess.CompletedProcess[bytes] | None = None
        with suppress(subprocess.TimeoutExpired, OSError):
            child = subprocess.run(  # noqa: S603 - node on a script of ours
                [self._node, "--max-old-space-size=512", str(_SCRIPT)],
                input=job, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
                timeout=WALL_SECONDS, check=False,
            )  # fmt: skip
        if child is None or child.returncode != 0 or len(child.stdout) > _MAX_ANSWER_BYTES:
            raise PlannerFault("environment", "the npm engine did not answer")
        answers: Any = None
        with suppress(ValueError, RecursionError):
            answers = json.loads(child.stdout)
        return answers


def _rendered(answer: Any) -> Rendered:
    if isinstance(answer, dict) and type(answer.get("text")) is str:
        return Rendered(answer["text"])
    if isinstance(answer, dict) and type(answer.get("error")) is str:
        return Rendered(None, next((text for pattern, text in _REASONS if pattern.search(answer["error"])), OTHER))
    raise PlannerFault("environment", "the npm engine gave no valid answer")
