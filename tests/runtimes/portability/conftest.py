"""The npm engine, fetched once, and the bundle of the tests."""

from __future__ import annotations

import pytest

from planner.bundles.bundle import FolderBundle
from planner.bundles.open import open_bundle
from planner.runtimes.npm_renderer import NpmRenderer
from tests.support.npm_package import FOLDER, absence


@pytest.fixture(scope="session")
def npm() -> NpmRenderer:
    """The engine, or a skip that says what is missing."""
    why = absence()
    if why is not None:
        pytest.skip(f"no npm engine: {why}")
    return NpmRenderer(FOLDER)


@pytest.fixture(scope="session")
def bundle() -> FolderBundle:
    """The embedded bundle."""
    return open_bundle("reference")
