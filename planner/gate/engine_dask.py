"""The same cells over Dask workers: a local cluster, or one that runs already (design.md §10, facts-tooling.md §1).

A worker that is lost takes its finished results with it, and Dask runs those cells again; cells are pure and the
driver takes each result once, so nothing is lost and nothing comes twice.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from planner.gate.cells import Cell
from planner.gate.engine import AHEAD, Given, Opener, Runner, Taken, Work
from planner.values.gate import CellResult
from planner.values.reasons import PlannerFault

_opened: dict[str, Runner] = {}


def run_in_dask(work: Iterable[Work], opener: Opener, jobs: int, address: str | None = None) -> Iterator[Given]:
    """Run cells over Dask and give the results in the order of the cells.

    jobs     workers of a cluster that is started here and ended with the run, of one thread each.
    address  of a scheduler that runs already; its workers must have this package and the bundles by the same names.
    Raises PlannerFault environment without the `dask` extra, worker_lost where a cell takes its workers with it.
    """
    try:
        from distributed import Client, KilledWorker, LocalCluster
    except ImportError:
        raise PlannerFault("environment", "dask is not installed; it is the extra named dask") from None
    # Every key that a lost worker held is one line of its log.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    token, waiting, queue = uuid4().hex, iter(work), deque[Any]()
    with ExitStack() as stack:
        if address is None:
            folder = stack.enter_context(TemporaryDirectory(prefix="planner-dask-"))
            cluster = stack.enter_context(
                LocalCluster(
                    n_workers=jobs, threads_per_worker=1, dashboard_address=None, host="127.0.0.1",
                    local_directory=folder, silence_logs=logging.CRITICAL,
                )
            )  # fmt: skip
            client = stack.enter_context(Client(cluster))
        else:
            client = stack.enter_context(_connected(Client, address))
            jobs = max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
        while True:
            for one in islice(waiting, jobs * AHEAD - len(queue)):
                queue.append(one if isinstance(one, Taken) else client.submit(_run, token, opener, one, pure=False))
            if not queue:
                return
            head = queue.popleft()
            if isinstance(head, Taken):
                yield head
                continue
            try:
                result: CellResult = head.result()
            except KilledWorker:
                raise PlannerFault("worker_lost", "a cell took its Dask workers with it") from None
            head.release()
            yield result


def _connected(client: Any, address: str) -> Any:
    try:
        return client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError):
        raise PlannerFault("upstream_down", "no Dask scheduler answers at this address") from None


def _run(token: str, opener: Opener, cell: Cell) -> CellResult:
    """Run one cell in a worker, which opens what cells need with its first one."""
    if token not in _opened:
        # A worker outlives the runs of a cluster that is not ours; it keeps what the last one needed.
        _opened.clear()
        _opened[token] = opener()
    return _opened[token](cell)
