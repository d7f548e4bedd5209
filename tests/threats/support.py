"""What the hostile-input tests share: a request that must still be served, poisoned templates, a child's memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from planner.bundles.open import open_bundle
from planner.planner import Planner
from planner.values.bundle import Bundle, Engine, Manifest
from planner.values.plan import Plan
from planner.values.profile import TemplateProfile

ROOT = Path(__file__).resolve().parents[2]
CANARY = "kestrel7391"
MIB = 1 << 20
CALM = [{"role": "user", "content": "Is the kettle on?"}]


class Poisoned:
    """The embedded bundle with a trigger behind its template: what a probe that was deceived would let through."""

    def __init__(self, trigger: str, *, before: bool = False) -> None:
        self._inner: Bundle = open_bundle("reference")
        source = self._inner.template_source
        self.template_source = trigger + source if before else source + trigger

    @property
    def manifest(self) -> Manifest:
        """That of the embedded bundle."""
        return self._inner.manifest

    @property
    def engine(self) -> Engine:
        """That of the embedded bundle."""
        return self._inner.engine

    @property
    def profile(self) -> TemplateProfile:
        """The profile measured without the trigger."""
        return self._inner.profile


def served(planner: Planner) -> None:
    """The next request is planned as if nothing had happened."""
    answer = planner.plan(messages=CALM, max_input_tokens=2_000)
    assert isinstance(answer, Plan), answer


def child(program: str, *arguments: str) -> dict[str, Any]:
    """Run a program in its own process; it prints one JSON object, to which its stderr is added."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program, *arguments],
        capture_output=True, check=False, cwd=ROOT, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    return {**json.loads(done.stdout), "stderr": done.stderr}


PRELUDE = """
import json, resource, sys
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
"""
