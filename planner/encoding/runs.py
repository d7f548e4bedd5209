"""Runs: the stretches between two template-made control tokens, each encoded in one call and cached.

Cutting there is exact because the tokenizer itself cuts at its added tokens before it does anything else
(facts-encoding.md §4); a control string in content is never cut on, so content cannot make a control id.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from dataclasses import dataclass

from planner.encoding.guards import Guards
from planner.values.bundle import Bundle
from planner.values.prompt import Counters
from planner.values.reasons import RefusalSignal

DEFAULT_CACHE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Run:
    """One encoded run: its ids and the tokens that lie wholly inside each part; the rest straddle.

    `neutralised` counts the control strings it spells: all of them content, since cuts took the others.
    """

    ids: array[int]
    counts: tuple[int, ...]
    neutralised: int = 0


Key = tuple[str, tuple[int, ...]]


class RunCache:
    """Encoded runs of one bundle, bounded by bytes, least recently used first out. Safe between threads."""

    def __init__(self, bundle: Bundle, guards: Guards, limit_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        """Hold at most `limit_bytes` of texts and ids."""
        self._bundle = bundle
        self._guards = guards
        self._limit = limit_bytes
        self._size = 0
        self._runs: OrderedDict[Key, Run] = OrderedDict()
        self._lock = threading.Lock()

    def encode(self, text: str, lengths: tuple[int, ...], counters: Counters) -> Run:
        """Return the run's ids and counts per part; `lengths` are the parts' characters, in order.

        Refuses control_token_forged where an id of a guard came out of ordinary text.
        """
        key = (text, lengths)
        with self._lock:
            run = self._runs.get(key)
            if run is not None:
                self._runs.move_to_end(key)
                counters.cache_hits += 1
                return run
        run = self._encode(text, lengths)
        counters.runs_encoded += 1
        counters.characters_encoded += len(text)
        with self._lock:
            if key not in self._runs:
                self._runs[key] = run
                self._size += _cost(text, run)
                while self._size > self._limit and len(self._runs) > 1:
                    (old_text, _), old = self._runs.popitem(last=False)
                    self._size -= _cost(old_text, old)
        return run

    def __len__(self) -> int:
        """Return how many runs are remembered."""
        return len(self._runs)

    def clear(self) -> None:
        """Forget every run."""
        with self._lock:
            self._runs.clear()
            self._size = 0

    def _encode(self, text: str, lengths: tuple[int, ...]) -> Run:
        encoded = self._bundle.engine.encode(text)
        listed = encoded.ids
        if self._guards.any_in(listed):
            raise RefusalSignal("control_token_forged", "a run holds a control id")
        ids = array("i", listed)
        neutralised = self._guards.count(text)
        if len(lengths) == 1:
            return Run(ids, (len(ids),), neutralised)
        counts: list[int] = []
        first, at = 0, 0
        for length in lengths[:-1]:
            at += length
            index, start = encoded.token_at(at)
            counts.append(max(0, index - first))
            first = index + 1 if start < at else index
        counts.append(max(0, len(ids) - first))
        return Run(ids, tuple(counts), neutralised)


def _cost(text: str, run: Run) -> int:
    return 4 * len(text) + 4 * len(run.ids) + 256
