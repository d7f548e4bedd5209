"""The results as a JUnit file, which CI systems show: one suite per bundle, one case per sample and tier."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape
from xml.sax.saxutils import quoteattr as quoted

from planner.gate.verdict import reason_id
from planner.values.gate import CellResult, GateResult
from planner.values.printable import printable


def junit(results: Iterable[CellResult], verdict: GateResult) -> bytes:
    """Return the file. Reasons that are about no cell make a suite of their own, so that they fail in CI too."""
    suites: dict[str, list[CellResult]] = {}
    told: set[tuple[str, str]] = set()
    for result in results:
        told.update((reason.code, reason_id(result, reason)) for reason in result.reasons)
        suites.setdefault(result.bundle_id, []).append(result)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<testsuites name="planner gate">']
    for bundle_id, cells in suites.items():
        failed = sum(cell.verdict == "block" for cell in cells)
        lines.append(f'<testsuite name={quoteattr(bundle_id)} tests="{len(cells)}" failures="{failed}">')
        lines += [_case(cell) for cell in cells]
        lines.append("</testsuite>")
    ours = [reason for reason in verdict.reasons if (reason.code, reason.id) not in told]
    lines.append(f'<testsuite name="release" tests="{len(ours) + 1}" failures="{len(ours)}">')
    lines.append(f'<testcase classname="release" name={quoteattr("candidate " + verdict.candidate_id[:16])}/>')
    for reason in ours:
        name = f"{reason.code} {reason.id}".strip()
        lines.append(f'<testcase classname="release" name={quoteattr(name)}><failure message={quoteattr(name)}/>'
                     "</testcase>")  # fmt: skip
    lines += ["</testsuite>", f"<!-- {escape(verdict.claim).replace('--', '- -')} -->", "</testsuites>", ""]
    return "\n".join(lines).encode()


def quoteattr(text: str) -> str:
    """Return a value of an attribute with its quotes; control characters have no form in XML."""
    return quoted(printable(text))


def _case(cell: CellResult) -> str:
    head = f"<testcase classname={quoteattr(cell.family)} name={quoteattr(f'{cell.sample_id} [{cell.tier}]')}"
    if cell.verdict == "pass":
        return head + "/>"
    text = "; ".join(f"{reason.code}: {reason.id}" for reason in cell.reasons)
    return f"{head}><failure message={quoteattr(text)}/></testcase>"
