"""The opened bundles of the parity tests."""

from tests.parity.conftest import opened

__all__ = ["opened"]
