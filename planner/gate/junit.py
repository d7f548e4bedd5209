"""The results as a JUnit file, which CI systems show: one suite per bundle, one case per sample and tier."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import IO, Self
from xml.sax.saxutils import escape
from xml.sax.saxutils import quoteattr as quoted

from planner.gate.verdict import MOST_REASONS, reason_id
from planner.values.gate import CellResult, GateResult
from planner.values.printable import printable

_PIECE = 1 << 20


class Junit:
    """Collects cases in files beside memory: a suite says how many it has before the first of them."""

    def __init__(self) -> None:
        """Begin with no suite."""
        self._files = ExitStack()
        self._suites: dict[str, _Suite] = {}
        self._told: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        """Hold the files."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the files go."""
        self._files.close()

    def add(self, result: CellResult) -> None:
        """Take one cell."""
        # The first ones of a run are all that a verdict lists.
        if len(self._told) < MOST_REASONS:
            self._told.update((reason.code, reason_id(result, reason)) for reason in result.reasons)
        if result.bundle_id not in self._suites:
            file = tempfile.TemporaryFile("w+b")  # noqa: SIM115 - the stack closes it
            self._suites[result.bundle_id] = _Suite(self._files.enter_context(file))
        self._suites[result.bundle_id].add(result)

    def chunks(self, verdict: GateResult) -> Iterator[bytes]:
        """Give the file; reasons that are about no cell make a suite of their own, so that they fail in CI too."""
        yield b'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="planner gate">\n'
        for bundle_id, suite in self._suites.items():
            yield from suite.chunks(bundle_id)
        yield "\n".join(_release(verdict, self._told)).encode()


def junit(results: Iterable[CellResult], verdict: GateResult) -> bytes:
    """Return the whole file of some cells."""
    with Junit() as made:
        for result in results:
            made.add(result)
        return b"".join(made.chunks(verdict))


class _Suite:
    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._tests, self._failures = file, 0, 0

    def add(self, result: CellResult) -> None:
        self._tests += 1
        self._failures += result.verdict == "block"
        self._file.write(f"{_case(result)}\n".encode())

    def chunks(self, bundle_id: str) -> Iterator[bytes]:
        name = quoteattr(bundle_id)
        yield f'<testsuite name={name} tests="{self._tests}" failures="{self._failures}">\n'.encode()
        self._file.seek(0)
        while piece := self._file.read(_PIECE):
            yield piece
        self._file.seek(0, 2)
        yield b"</testsuite>\n"


def _release(verdict: GateResult, told: set[tuple[str, str]]) -> Iterator[str]:
    ours = [reason for reason in verdict.reasons if (reason.code, reason.id) not in told]
    yield f'<testsuite name="release" tests="{len(ours) + 1}" failures="{len(ours)}">'
    yield f'<testcase classname="release" name={quoteattr("candidate " + verdict.candidate_id[:16])}/>'
    for reason in ours:
        name = quoteattr(f"{reason.code} {reason.id}".strip())
        yield f'<testcase classname="release" name={name}><failure message={name}/></testcase>'
    yield from ("</testsuite>", f"<!-- {escape(verdict.claim).replace('--', '- -')} -->", "</testsuites>", "")


def quoteattr(text: str) -> str:
    """Return a value of an attribute with its quotes; control characters have no form in XML."""
    return quoted(printable(text))


def _case(cell: CellResult) -> str:
    head = f"<testcase classname={quoteattr(cell.family)} name={quoteattr(f'{cell.sample_id} [{cell.tier}]')}"
    if cell.verdict == "pass":
        return head + "/>"
    text = "; ".join(f"{reason.code}: {reason.id}" for reason in cell.reasons)
    return f"{head}><failure message={quoteattr(text)}/></testcase>"
