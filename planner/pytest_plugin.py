"""A pytest plugin: the samples of a folder as items of a user's own suite, one per sample, bundle and tier.

Does nothing unless `--planner-samples DIR` is given. It gives no verdict over a release: a family that has no sample
is missed by `planner gate run` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from planner.gate.cells import Cell
    from planner.values.gate import CellResult

_OPTIONS = (
    ("samples", "DIR", "folder of samples, a folder per family in it"),
    ("candidate", "FILE", "what is to be released (planner gate candidate)"),
    ("bundles", "A,B", "bundle ids or paths the candidate ships"),
    ("tiers", "4k,8k", "tiers for samples that name no limit; all approved ones by default"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("planner", "samples of the release gate")
    for name, metavar, text in _OPTIONS:
        group.addoption(f"--planner-{name}", metavar=metavar, default=None, help=text)


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the samples behind the items of the suite."""
    if config.getoption("--planner-samples") is not None:
        items.extend(_items(session, config))


def _items(session: pytest.Session, config: pytest.Config) -> Iterator[pytest.Item]:
    from planner.gate.cells import Subject, cells_of, run_cell
    from planner.gate.reading import read_candidate, read_samples
    from planner.planner import Planner
    from planner.values.reasons import PlannerFault, RefusalSignal

    folder, candidate_file, bundles, tiers = (config.getoption(f"--planner-{name}") for name, _, _ in _OPTIONS)
    if candidate_file is None or bundles is None:
        _unusable("--planner-samples needs --planner-candidate and --planner-bundles")
    if not Path(folder).is_dir():
        _unusable("--planner-samples names no folder")
    try:
        candidate = read_candidate(Path(candidate_file))
        planners = [Planner(_ref(ref)) for ref in bundles.split(",")]
        opened = {one.bundle_id: one.encoder(app_version=candidate.app_version).bundle for one in planners}
        subjects = {one.bundle_id: Subject(one.bundle_id, opened[one.bundle_id], one.plan, opened) for one in planners}
        manifests = {name: bundle.manifest for name, bundle in opened.items()}
        wanted = tiers.split(",") if tiers else list(dict.fromkeys(t.id for m in manifests.values() for t in m.tiers))
        pairs = [(manifest.id, manifest.digest) for manifest in manifests.values()]
        cells = list(cells_of(read_samples(Path(folder)), pairs, wanted, candidate, manifests))
    except (PlannerFault, RefusalSignal) as problem:
        # `from None`: the cause may hold words of a sample.
        raise pytest.UsageError(f"planner: {problem}") from None
    for cell in cells:
        yield SampleItem.from_parent(
            session, name=f"{cell.sample.family}/{cell.sample.id}[{cell.bundle_id}-{cell.tier}]",
            cell=cell, run=lambda one: run_cell(one, subjects[one.bundle_id]),
        )  # fmt: skip


def _unusable(sentence: str) -> NoReturn:
    raise pytest.UsageError(sentence)


def _ref(ref: str) -> str | Path:
    return Path(ref) if "/" in ref or "\\" in ref else ref.strip()


class SampleItem(pytest.Item):
    """One cell of the gate. It fails with its reasons, which are codes and ids, never with a trace or a text."""

    def __init__(self, *, cell: Cell, run: Callable[[Cell], CellResult], **fields: Any) -> None:
        """Keep the cell and what runs it."""
        super().__init__(**fields)
        self._cell, self._run = cell, run

    def runtest(self) -> None:
        """Run the cell."""
        result = self._run(self._cell)
        if result.verdict == "block":
            raise Blocked("\n".join(f"{reason.code}: {reason.id}".rstrip(": ") for reason in result.reasons))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the reasons alone."""
        return str(excinfo.value) if isinstance(excinfo.value, Blocked) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Say where the item is: its family and sample."""
        return self.path, None, self.name


class Blocked(Exception):  # noqa: N818 - a verdict, not an error of ours
    """A cell blocks; the message is its reasons."""
