"""A user's folders, the command in this process, and templates that differ from the shipped one by little."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.open import open_bundle
from planner.cli.files import user_folder
from planner.cli.main import run
from planner.planner import Planner
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, PlanRequest, TextItem

SHIPPED = (Path(__file__).parents[2] / "model_bundles" / "reference" / "chat_template.jinja").read_text("utf-8")
NEWER = SHIPPED.replace("{{- '<|begin|>' }}", "{{- '<|begin|>' }}{{- 'note' }}")
"""The shipped template with one word more in front: other ids for every prompt."""


BUILT_IN = open_bundle("reference").manifest.digest


def planned(answer: Plan | Refusal) -> Plan:
    """Return an answer that is a plan."""
    assert isinstance(answer, Plan), answer
    return answer


def sha256(text: str) -> str:
    """Return the digest a publisher would state."""
    return hashlib.sha256(text.encode()).hexdigest()


def asked(app_version: str | None = None, **fields: Any) -> PlanRequest:
    """Return a request of an app."""
    return PlanRequest(
        "reference", CurrentRequest(id="q", text="Which room is free?"), app_version=app_version,
        policy=(TextItem("tone", "Answer in one sentence."),), reserved_output_tokens=64, **fields,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Done:
    """What a user has after a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout as JSON."""
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Desk:
    """One user's machine: folders below `root`, and the command."""

    root: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def folder(self) -> Path:
        """Where the user's bundles and records are."""
        return user_folder()

    @property
    def record(self) -> Path:
        """The record of the bundle that these tests change."""
        return self.folder / "reference" / "activation.json"

    def run(self, *arguments: str | Path) -> Done:
        """Run `planner bundle template`."""
        code = run(["bundle", "template", *map(str, arguments)])
        out, err = self.capsys.readouterr()
        return Done(code, out, err)

    def write(self, text: str, name: str = "new.jinja") -> Path:
        """Write a template as it was fetched."""
        path = self.root / name
        path.write_text(text, encoding="utf-8")
        return path

    def activate(self, text: str, *options: str | Path, bundle: str = "reference") -> Done:
        """Activate a template with the digest it really has."""
        return self.run("activate", bundle, self.write(text), "--sha256", sha256(text), *options)

    def plan(self, request: PlanRequest) -> Plan | Refusal:
        """Plan as an application does that gives its user's folder."""
        return Planner("reference", user_folder=self.folder).plan(request)

    def matrix(self, *cells: dict[str, Any]) -> Path:
        """Write a capability matrix."""
        path = self.root / "matrix.json"
        path.write_text(json.dumps(cells), encoding="utf-8")
        return path


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A machine on which nothing was activated."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Desk(tmp_path, capsys)


def cell(digest: str, **changes: Any) -> dict[str, Any]:
    """Return a cell of the matrix as its file holds it."""
    return {
        "appVersion": "2.1", "bundleDigest": digest, "runtime": "llama.cpp", "runtimeVersion": "b9", "os": "android",
        "abi": "arm64-v8a", "vendor": "acme", "limits": ["4k"], "status": "measured",
    } | changes  # fmt: skip
