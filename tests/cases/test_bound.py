"""Every string under `checks` of the cases of this issue is bound to an assertion, and to one string only."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.cases import load

CASES = (
    "D01", "D02", "D03", "D04", "D05", "D06", "D07", "D08", "D09", "D10", "D11", "D12", "D13", "D15", "D16", "D17",
    "D18", "D19", "D20",
)  # fmt: skip
HERE = Path(__file__).parent


def calls_of_check() -> list[tuple[str, str, bool]]:
    """List (case, first words, stands in a test of that case) of every `check(...)` in this folder."""
    found = []
    for path in sorted(HERE.glob("test_*.py")):
        for function in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "check":
                    case_id, claim = (ast.literal_eval(argument) for argument in node.args[:2])
                    found.append((case_id, claim, function.name.startswith(f"test_{case_id}")))
    return found


def unbound(checks: dict[str, list[str]], calls: list[tuple[str, str, bool]]) -> list[str]:
    """Name every check without an assertion, and every assertion that names no check or several."""
    faults = []
    for case_id, strings in checks.items():
        claims = [claim for owner, claim, _ in calls if owner == case_id]
        faults += [f"{case_id} unbound: {text}" for text in strings if not any(map(text.startswith, claims))]
        faults += [
            f"{case_id} names {sum(text.startswith(claim) for text in strings)} checks: {claim}"
            for claim in claims
            if sum(text.startswith(claim) for text in strings) != 1
        ]
    return faults


def test_every_check_is_bound_to_an_assertion(shared_dir: Path) -> None:
    """The strings of the files and the calls of `check` name each other."""
    checks = {case.id: case.checks() for case in load(shared_dir, *CASES)}
    calls = calls_of_check()
    assert [] == unbound(checks, calls)
    assert [] == [claim for _, claim, in_place in calls if not in_place], "a check in a test of another case"


def test_an_unbound_check_is_found() -> None:
    """The comparison reports a string that nothing asserts and an assertion that names nothing."""
    assert 1 == len(unbound({"D01": ["the first", "another"]}, [("D01", "the", True)]))
    assert 2 == len(unbound({"D01": ["the first"]}, [("D01", "no such", True)]))
    assert [] == unbound({"D01": ["the first"]}, [("D01", "the first", True)])


def test_every_case_and_variant_has_a_test_of_its_name(shared_dir: Path) -> None:
    """D01 has test_D01_.., its variant D02a has test_D02a_.., and so on."""
    names = [
        function.name
        for path in HERE.glob("test_*.py")
        for function in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(function, ast.FunctionDef)
    ]
    for case in load(shared_dir, *CASES):
        for wanted in (case.id, *(variant["id"] for variant in case.variants)):
            assert any(name.startswith(f"test_{wanted}_") for name in names), wanted
