"""Where a ledger of a test is, and one with five completed turns; a file with other needs makes its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.ledger.ledger import Ledger
from tests.ledger.summary_support import fill


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger of a test is."""
    return tmp_path / "ledger"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    """A ledger with five completed turns."""
    with Ledger.open(path) as opened:
        fill(opened, 1, 2, 3, 4, 5)
        yield opened
