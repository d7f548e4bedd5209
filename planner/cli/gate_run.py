"""`planner gate run`: every sample on every bundle and tier, and one verdict."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.asking import planner_for
from planner.cli.failure import REFUSED, complain, usage
from planner.cli.files import STDIO, check_outputs, write_chunks, write_output
from planner.cli.opening import as_tree, progress
from planner.cli.whatif import split

if TYPE_CHECKING:
    from planner.gate.earlier import Known
    from planner.gate.engine import Given, Runner, Work
    from planner.gate.verdict import Tally
    from planner.values.candidate import Candidate
    from planner.values.gate import CellResult, GateResult

_NONE: Known = {}
"""Stands for an earlier run where none is named."""


@click.command("run")
@click.option("--candidate", required=True, metavar="CANDIDATE.json", help="What is to be released.")
@click.option("--samples", required=True, metavar="DIR", help="Folder of samples, a folder per family in it.")
@click.option("--bundles", required=True, metavar="A,B,...", help="Bundle ids or paths the candidate ships.")
@click.option("--tiers", metavar="4k,8k", help="Tiers for samples that name no limit; default: all approved ones.")
@click.option("--receipts", metavar="DIR", help="Device receipts with their observations.")
@click.option("--evidence", metavar="DIR", help="Files of the other parts of evidence, each named after its part.")
@click.option("--matrix", metavar="MATRIX.json", help="The combinations the app is meant for; lists what is uncovered.")
@click.option(
    "--integration", metavar="FILE.json", help="What was looked at again on each platform; the report repeats it."
)
@click.option("--results", metavar="OUT.jsonl", help="Write one JSON line per cell.")
@click.option("--junit", metavar="OUT.xml", help="Write a JUnit file for the CI system.")
@click.option("--report", metavar="OUT.html", help="Write a page with pictures; it needs no network.")
@click.option("--earlier", metavar="OLD.jsonl", help="Take unchanged cells from the results of an earlier run.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, metavar="N", help="Processes to run cells in.")
@click.option("--engine", type=click.Choice(["local", "dask"]), default="local", help="What runs the cells.")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler that runs already; implies --engine dask.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def command(**given: str | int | None) -> int:
    """Run every sample on every bundle and tier, and pass or block the candidate.

    Exit 0 where it passes, exit 2 with one line where anything blocks. Nothing is sent anywhere.
    """
    result = _run(given)
    if given["as_json"]:
        import json

        write_output(STDIO, json.dumps(as_tree(result), indent=1).encode() + b"\n")
    else:
        from planner.cli.draw_gate import draw_gate

        draw_gate(result)
    if result.verdict == "block":
        first = result.reasons[0]
        more = f" and {len(result.reasons) - 1} more" if len(result.reasons) > 1 else ""
        complain("release_blocked", f"{first.code}: {first.id}{more}")
        return REFUSED
    return 0


def _run(given: dict[str, str | int | None]) -> GateResult:
    from planner.gate.cells import cells_of
    from planner.gate.earlier import Earlier, with_earlier
    from planner.gate.junit import Junit
    from planner.gate.picture import Picture
    from planner.gate.reading import read_candidate, read_samples
    from planner.gate.report import report
    from planner.gate.verdict import Tally

    _check_outputs(given)
    candidate = read_candidate(Path(str(given["candidate"])))
    folder = _folder(given["samples"])
    for _ in read_samples(folder):
        pass  # a sample that cannot be read is said before the first cell is run
    refs = split("--bundles", str(given["bundles"]))
    planners = [planner_for(ref) for ref in refs]
    manifests = [one.encoder(app_version=candidate.app_version).bundle.manifest for one in planners]
    bundles = [(manifest.id, manifest.digest) for manifest in manifests]
    if len({manifest.id for manifest in manifests}) < len(manifests):
        raise usage("--bundles names two bundles of one id, or one bundle twice")
    by_id = {manifest.id: manifest for manifest in manifests}
    tiers = _tiers(_text(given["tiers"]), [[tier.id for tier in manifest.tiers] for manifest in manifests])
    runtimes = {one.digest: one.runtime.name for one in manifests if one.runtime is not None}
    tally, picture = Tally(candidate, bundles, runtimes), Picture()
    with ExitStack() as stack:
        cases = stack.enter_context(Junit()) if given["junit"] else None
        move = stack.enter_context(progress("cells", None))

        def run() -> Generator[CellResult]:
            cells = cells_of(read_samples(folder), bundles, tiers, candidate, by_id)
            engine = _engine(refs, candidate.app_version, given)
            # Closed before the results take their name, which may be that of the earlier ones.
            with Earlier(Path(str(given["earlier"]))) if given["earlier"] else nullcontext(_NONE) as earlier:
                for result, reused in with_earlier(cells, earlier, engine):
                    tally.add(result, reused=reused)
                    picture.add(result)
                    if cases is not None:
                        cases.add(result)
                    move(tally.cells)
                    yield result

        _write_results(_text(given["results"]), run())
        verdict = _verdict(given, candidate, tally)
        if cases is not None:
            write_chunks(str(given["junit"]), cases.chunks(verdict))
    if given["report"]:
        write_output(str(given["report"]), report(verdict, picture))
    return verdict


def _check_outputs(given: dict[str, str | int | None]) -> None:
    outputs = {f"--{name}": _text(given[name]) for name in ("results", "junit", "report")}
    inputs = [_text(given[name]) for name in ("candidate", "matrix", "integration")]
    check_outputs(outputs, tuple(inputs))
    # The results may take the place of the earlier ones, which are read before.
    check_outputs({name: to for name, to in outputs.items() if name != "--results"}, (_text(given["earlier"]),))


def _write_results(name: str | None, results: Generator[CellResult]) -> None:
    """Run the cells; each result is written as it comes, and the file takes its name when it is whole."""
    from planner.gate.earlier import result_line

    with closing(results):
        if name is None:
            for _ in results:
                pass
        else:
            write_chunks(name, (result_line(one) for one in results))


def _verdict(given: dict[str, str | int | None], candidate: Candidate, tally: Tally) -> GateResult:
    """Close with everything that was handed in beside samples."""
    from planner.gate.evidence import read_evidence
    from planner.gate.integration import read_integration
    from planner.gate.reading import read_matrix
    from planner.gate.receipts import measured, read_receipts

    sound, wrong = read_receipts(_folder(given["receipts"]), candidate) if given["receipts"] else ([], [])
    folder = _folder(given["evidence"]) if given["evidence"] else None
    evidence, lacking = read_evidence(folder, candidate, len(sound))
    matrix = read_matrix(Path(str(given["matrix"]))) if given["matrix"] else ()
    platforms, odd = read_integration(Path(str(given["integration"])), candidate) if given["integration"] else ((), [])
    return tally.result(
        receipts=[*wrong, *lacking, *odd], matrix=measured(matrix, sound), evidence=evidence, integration=platforms
    )


def _tiers(named: str | None, approved: list[list[str]]) -> list[str]:
    every = list(dict.fromkeys(tier for own in approved for tier in own))
    tiers = split("--tiers", named) or every
    if not set(tiers) <= set(every):
        raise usage("--tiers names a tier that no bundle approves")
    if any(own and not set(own) & set(tiers) for own in approved):
        raise usage("--tiers leaves out every tier of a bundle")
    return list(dict.fromkeys(tiers))


def _engine(
    refs: list[str], app_version: str, given: dict[str, str | int | None]
) -> Callable[[Iterable[Work]], Iterator[Given]]:
    from planner.gate.engine import run_here, run_in_processes

    opener = partial(open_subjects, tuple(refs), app_version)
    jobs = int(given["jobs"] or 1)
    if given["engine"] == "dask" or given["scheduler"]:
        from planner.gate.engine_dask import run_in_dask

        return lambda work: run_in_dask(work, opener, jobs, _text(given["scheduler"]))
    if jobs == 1:
        return lambda work: run_here(work, opener)
    return lambda work: run_in_processes(work, opener, jobs)


def open_subjects(refs: tuple[str, ...], app_version: str) -> Runner:
    """Open the bundles of a run as the candidate's app has them, in whichever process cells are run."""
    from planner.gate.cells import Subject, run_cell

    planners = [planner_for(ref) for ref in refs]
    bundles = {one.bundle_id: one.encoder(app_version=app_version).bundle for one in planners}
    subjects = {one.bundle_id: Subject(one.bundle_id, bundles[one.bundle_id], one.plan, bundles) for one in planners}
    return lambda cell: run_cell(cell, subjects[cell.bundle_id])


def _folder(name: str | int | None) -> Path:
    path = Path(str(name))
    if not path.is_dir():
        raise usage("--samples, --receipts and --evidence each name a folder")
    return path


def _text(value: str | int | None) -> str | None:
    return None if value is None else str(value)
