"""Opened bundles by name, once a session, and the outcome tables at the end of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planner.bundles.open import open_bundle
from planner.values.bundle import Bundle
from tests.parity.outcomes import TABLES
from tests.support.reference import ReferenceBundle, shipped_reference

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("@qwen3-0.6b", "@reference", "@mistral-nemo")
"""Ids of shipped bundles, marked with an at sign to tell them from the shared folders of the same name."""

Opened = tuple[Bundle, ReferenceBundle]


@pytest.fixture(scope="session")
def opened(bundle_dir: Path, reference: Callable[[str], ReferenceBundle]) -> Iterator[Callable[[str], Opened]]:
    """Bundle and reference by folder name or `@id`; each is loaded once a session."""
    known: dict[str, Opened] = {}

    def by_name(name: str) -> Opened:
        if name not in known:
            if name.startswith("@"):
                known[name] = open_bundle(name[1:]), shipped_reference(ROOT / "model_bundles", name[1:])
            else:
                known[name] = open_bundle(bundle_dir / name), reference(name)
        return known[name]

    yield by_name
    known.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was accepted, refused and why, per bundle and shape."""
    if TABLES:
        terminalreporter.section("parity: outcomes per bundle and shape")
        for name in sorted(TABLES):
            for line in TABLES[name]:
                terminalreporter.write_line(line)
