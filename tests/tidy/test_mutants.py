"""The table of mutants fits the code: each place is there once, each requirement has a test (tools/mutants)."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.mutants.mutant import Mutant, named_tests  # noqa: E402
from tools.mutants.table import MUTANTS  # noqa: E402


def test_every_mutant_changes_one_place_and_is_python() -> None:
    """A place that moved must be found again, or its test is no longer seen failing."""
    for mutant in MUTANTS:
        text = mutant.text()
        assert mutant.file.endswith((".sql", ".toml")) or ast.parse(text)
    assert [] == [one for one, count in Counter(MUTANTS).items() if count > 1]


def test_every_mutant_names_tests_that_exist() -> None:
    """A requirement that lost its test, or the file it names, is found here."""
    named = named_tests()
    for mutant in MUTANTS:
        assert list(mutant.tests(named))
    with pytest.raises(ValueError, match="names no test"):
        list(Mutant("lint.py", "x", "y", "R159@nowhere").tests(named))


def test_every_test_of_a_requirement_is_seen_failing_by_a_mutant() -> None:
    """A test that no mutant kills may be one that cannot fail; those that ask a real runtime have a namesake here."""
    named = named_tests()
    seen = {one for mutant in MUTANTS for one in mutant.tests(named)}
    every = {one for tests in named.values() for one in tests}
    asking = {one for one in every if one[0].startswith(("tests/runtimes/llama/", "tests/runtimes/onnx/"))}
    assert [] == sorted(every - seen - asking)
