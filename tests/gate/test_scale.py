"""Cells over processes and Dask: the same bytes, nothing lost or twice where workers are killed, memory flat."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from planner.cli import gate_run
from planner.cli.main import run as command
from planner.gate import cells as cells_module
from planner.gate.earlier import Earlier, result_line, with_earlier
from planner.gate.engine import Given, Taken, Work, run_here, run_in_processes
from planner.gate.verdict import MOST_REASONS, Tally
from planner.values.gate import FAMILIES, CellResult, Reason
from planner.values.reasons import PlannerFault
from planner.wire.dump import dump_record
from tests.cli.support import ROOT
from tests.cli.support import planner as planner_command
from tests.gate.gate_support import candidate, sample
from tests.gate.scale_support import cells, cheap, open_cheap, open_deadly, open_known

FULL = os.environ.get("PLANNER_FULL") == "1"
CELLS = 1_000_000 if FULL else 20_000
FEW = 2_000
needs_dask = pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="dask is not installed")
Engine = Callable[[Iterable[Work], Callable[[], Callable[..., CellResult]]], Iterator[Given]]


def dask(work: Iterable[Work], opener: Callable[[], Callable[..., CellResult]]) -> Iterator[Given]:
    """Run on a local cluster of two workers."""
    from planner.gate.engine_dask import run_in_dask

    return run_in_dask(work, opener, 2)


ENGINES = [
    pytest.param(partial(run_in_processes, jobs=2), id="processes"),
    pytest.param(dask, id="dask", marks=needs_dask),
]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_killed_worker_loses_nothing_and_gives_nothing_twice(engine: Engine, tmp_path: Path) -> None:
    """kill -9 of a worker in the middle: the results are those of one process, byte for byte and in order."""
    expected = [result_line(one) for one in run_here(cells(150), open_cheap) if isinstance(one, CellResult)]
    found: list[bytes] = []
    killed: list[int] = []
    for given in engine(cells(150), partial(open_known, str(tmp_path))):
        assert isinstance(given, CellResult)
        found.append(result_line(given))
        if len(found) in (10, 60):
            killed.append(kill_one(tmp_path, killed))
    assert expected == found
    assert len(list(tmp_path.iterdir())) > 2, "no worker was opened after a kill"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cell_that_kills_every_worker_is_named(engine: Engine) -> None:
    """It is tried a few times, and then it is at fault and no other one."""
    with pytest.raises(PlannerFault, match="worker_lost"):
        list(engine(cells(6), open_deadly))


@pytest.mark.parametrize("engine", [pytest.param(run_here, id="here"), *ENGINES])
def test_results_that_are_there_keep_their_place(engine: Engine) -> None:
    """Every third cell is taken from before: the order is that of the cells."""
    work: list[Work] = [Taken(cheap(one)) if at % 3 == 0 else one for at, one in enumerate(cells(31))]
    given = [one.result if isinstance(one, Taken) else one for one in engine(work, open_cheap)]
    assert [cheap(one) for one in cells(31)] == given


def test_nothing_is_opened_where_nothing_is_run() -> None:
    """A run that takes every cell from before starts no process and opens no bundle."""

    def never() -> Callable[..., CellResult]:
        raise AssertionError("opened")

    work = [Taken(cheap(one)) for one in cells(9)]
    assert work == list(run_here(work, never)) == list(run_in_processes(work, never, 2))


def kill_one(folder: Path, before: list[int]) -> int:
    """Kill the worker that was opened last; a broken pool ends its other workers itself."""
    for path in sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime_ns, reverse=True):
        if int(path.name) not in before:
            os.kill(int(path.name), signal.SIGKILL)
            return int(path.name)
    raise AssertionError("no worker was opened")


def samples(folder: Path, count: int = 2) -> Path:
    """Write a candidate and samples of each family."""
    (folder / "candidate.json").write_bytes(dump_record(candidate()))
    for family in FAMILIES:
        (folder / "samples" / family).mkdir(parents=True)
        for number in range(count):
            one = sample(f"{family}-{number}", family=family)
            (folder / "samples" / family / f"{number}.json").write_bytes(dump_record(one))
    return folder


def arguments(folder: Path, *more: str | Path) -> list[str]:
    """Return the command line of a run on the embedded bundle."""
    return [
        "gate", "run", "--candidate", str(folder / "candidate.json"), "--samples", str(folder / "samples"),
        "--bundles", "reference", *map(str, more),
    ]  # fmt: skip


def peak(folder: Path, count: int, *more: str | Path) -> int:
    """Run the whole command over so many cells with a runner that does nothing; return the most bytes it held."""
    tracemalloc.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cells_module, "cells_of", lambda *_: cells(count))
            assert 2 == command(arguments(folder, *more)), "every fiftieth cell blocks"
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_million_cells_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With results, JUnit file and report: ten times the cells are held in the memory of one time (20,000; FULL 1M)."""
    monkeypatch.setattr(gate_run, "_engine", lambda *_: lambda work: run_here(work, open_cheap))
    folder = samples(tmp_path)
    outputs = [text for name in ("results", "junit", "report") for text in (f"--{name}", str(folder / name))]
    peak(folder, FEW // 10, *outputs)
    few = peak(folder, FEW, *outputs)
    many = peak(folder, CELLS, *outputs)
    with (folder / "results").open("rb") as lines:
        assert CELLS == sum(1 for _ in lines)
    assert CELLS == (folder / "junit").read_bytes().count(b'<testcase classname="over_budget"')
    # What may grow are the reasons that are listed and the rows of the report, both up to their bound.
    assert many < few + min(MOST_REASONS, CELLS // 50) * 500 + 400 * 4_000, (few, many)
    capsys.readouterr()


def test_an_earlier_run_of_any_length_is_an_index(tmp_path: Path) -> None:
    """What is held for a line is where it begins; every cell is found by it, none is found by half of a digest."""
    path = tmp_path / "old.jsonl"
    count = CELLS // 4
    with path.open("wb") as file:
        file.writelines(result_line(cheap(one)) for one in cells(count))
    tracemalloc.start()
    with Earlier(path) as earlier:
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert held < 200 * count + 200_000
        found = with_earlier(cells(count + 3), earlier, lambda work: run_here(work, open_cheap))
        reused = [reused for _, reused in found]
        assert (count, 3) == (sum(reused), len(reused) - sum(reused))
        digest = next(cells(1)).digest
        assert earlier.get(digest) is not None
        assert earlier.get(digest[:16] + "0" * 48) is None


def test_lines_that_are_no_results_run_again(tmp_path: Path) -> None:
    """Half a line, a line of another tool, a result under another digest; two equal lines are one."""
    lines = [result_line(cheap(one)) for one in cells(4)]
    wrong = lines[1].replace(b'"verdict":"pass"', b'"verdict":"maybe"')
    swapped = lines[2].replace(list(cells(3))[2].digest.encode(), b"0" * 64)
    path = tmp_path / "old.jsonl"
    path.write_bytes(lines[0][:-20] + b"\n" + wrong + swapped + b"{}\n\n" + lines[3] + lines[3])
    with Earlier(path) as earlier:
        got = list(with_earlier(cells(4), earlier, lambda work: run_here(work, open_cheap)))
    assert [False, False, False, True] == [reused for _, reused in got]
    assert [cheap(one) for one in cells(4)] == [result for result, _ in got]


def test_reasons_beyond_the_bound_are_counted() -> None:
    """A verdict lists so many and says how many more there are; it blocks all the same."""
    tally = Tally(candidate(), [("reference", candidate().bundle_digests[0])])
    blocked = cheap(list(cells(50))[-1])
    for number in (*range(MOST_REASONS + 7), *range(9)):
        tally.add(replace(blocked, reasons=(Reason("outcome_differs", str(number)),)))
    result = tally.result()
    listed = [reason for reason in result.reasons if reason.code == "outcome_differs"]
    assert ("block", MOST_REASONS, 7) == (result.verdict, len(listed), result.unlisted)


@needs_dask
def test_dask_writes_the_same_bytes(tmp_path: Path) -> None:
    """The command on a local cluster of two workers and in one process: results and verdict are equal."""
    folder = samples(tmp_path, 1)
    here = planner_command(*arguments(folder, "--json", "--results", folder / "one.jsonl"))
    there = planner_command(
        *arguments(folder, "--json", "--results", folder / "two.jsonl", "--engine", "dask", "--jobs", "2")
    )
    assert (here.code, here.out, here.err) == (there.code, there.out, there.err)
    assert (folder / "one.jsonl").read_bytes() == (folder / "two.jsonl").read_bytes()


@needs_dask
def test_a_scheduler_that_runs_already_is_used(tmp_path: Path) -> None:
    """By its address; and one that is not there is one line."""
    from distributed import LocalCluster

    from planner.gate.engine_dask import run_in_dask

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, host="127.0.0.1",
                      local_directory=str(tmp_path)) as cluster:  # fmt: skip
        for _ in range(2):
            given = list(run_in_dask(cells(12), open_cheap, 1, cluster.scheduler_address))
            assert [cheap(one) for one in cells(12)] == given
        address = cluster.scheduler_address
    with pytest.raises(PlannerFault, match="upstream_down"):
        list(run_in_dask(cells(1), open_cheap, 1, address))


def test_without_dask_one_line_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, the extra is named, and no file is left."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    folder = samples(tmp_path, 1)
    assert 2 == command(arguments(folder, "--engine", "dask", "--results", folder / "out.jsonl"))
    assert capsys.readouterr().err.endswith("environment: dask is not installed; it is the extra named dask\n")
    assert ["candidate.json", "samples"] == sorted(path.name for path in folder.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="signals of a process group are POSIX")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_leaves_no_half_file_and_no_process(tmp_path: Path, jobs: str) -> None:
    """SIGINT to the whole group while results are written: exit 130, the old file as it was, nobody left."""
    folder = samples(tmp_path)
    out = folder / "out.jsonl"
    out.write_bytes(b"old\n")
    # A process that was started in the background may have been told to ignore the signal.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import planner.gate.cells as made; from planner.cli.main import main; from tests.gate import scale_support\n"
        "made.cells_of = lambda *_: scale_support.cells(10**6)\nmain()"
    )
    given = arguments(folder, "--results", out, "--junit", folder / "out.xml", "--jobs", jobs)
    with subprocess.Popen([sys.executable, "-c", code, *given], cwd=ROOT, start_new_session=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:  # fmt: skip
        try:
            for _ in range(600):
                if any(path.stat().st_size > 0 for path in folder.glob(".out.jsonl.*.part")):
                    break
                assert child.poll() is None, child.communicate()
                time.sleep(0.05)
            os.killpg(child.pid, signal.SIGINT)
            _, err = child.communicate(timeout=60)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
    assert (130, b"") == (child.returncode, err.strip())
    assert ["candidate.json", "out.jsonl", "samples"] == sorted(path.name for path in folder.iterdir())
    assert b"old\n" == out.read_bytes()
    assert gone(child.pid)


def gone(group: int) -> bool:
    """Tell whether a process group ends by itself within a while; the tracker of the pool ends a moment later."""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_json_names_unlisted_reasons(tmp_path: Path) -> None:
    """The verdict as JSON has the number, 0 where all are listed."""
    done = planner_command(*arguments(samples(tmp_path, 1), "--json"))
    assert 0 == json.loads(done.out)["unlisted"]
