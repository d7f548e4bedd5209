"""One ledger a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.ledger.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger in a folder of its own."""
    with Ledger.open(tmp_path / "chat.db") as opened:
        yield opened
