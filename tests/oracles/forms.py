"""Every rung of a request with shorter forms, written out: what is kept, and in which form."""

from __future__ import annotations

from collections.abc import Callable

from planner.values.request import PlanRequest
from tests.oracles.rungs import rungs

Key = tuple[str, int]
Forms = dict[Key, tuple[str, str]]
Rung = tuple[tuple[str, ...], tuple[str, ...], Forms]


def form_rungs(request: PlanRequest, own: str, rows: dict[Key, list[tuple[str, str]]]) -> list[Rung]:
    """Return (turn ids, citation ids, forms) of each rung, fullest first.

    own   id of the request's turn.
    rows  the forms of each text in the order they come, by `kind/id` and place, old turns by sequence.
    """
    plain, forms = rungs(request), Forms()
    line = request.options.low_value_line or 0.0
    low = sum(passage.relevance < line for passage in request.passages)
    out: list[Rung] = [(*rung, {}) for rung in plain[: low + 1]]

    def shorten(wanted: Callable[[Key], bool], at: int, *passes: Callable[[str], bool]) -> None:
        for allowed in passes or (lambda name: True,):
            for key in filter(wanted, rows):
                for name, text in rows[key]:
                    if allowed(name):
                        forms[key] = (name, text)
                        out.append((*plain[at], dict(forms)))

    lossless, lossy = (lambda name: name in ("json", "log")), (lambda name: name not in ("json", "log"))
    shorten(lambda key: key[0].startswith("turn/") and key[0] != f"turn/{own}", low, lossless, lossy)
    for name in reversed(plain[low][1]):
        shorten(lambda key, name=name: key[0] == f"passage/{name}", low)  # type: ignore[misc]
    out += [(*rung, dict(forms)) for rung in plain[low + 1 :]]
    shorten(lambda key: key[0] == f"turn/{own}", len(plain) - 1, lossless, lossy)
    return out
