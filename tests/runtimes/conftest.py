"""A model server that says what a test wants, for every test of a client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.upstream import Upstream, running


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A running server."""
    with running() as server:
        yield server
