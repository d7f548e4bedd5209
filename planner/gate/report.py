"""The verdict as one HTML file: opens without a network, by keyboard, on a narrow screen, in light and dark.

It holds ids, numbers and codes alone. Every picture has its figures beside it as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape as as_html

from planner.gate.codes import GATE_CODES
from planner.gate.picture import BUCKETS, SECTIONS, Bar, Picture
from planner.values.gate import CellResult, GateResult
from planner.values.integration import RECHECK
from planner.values.printable import printable

_STYLE = """
:root{color-scheme:light dark;--line:#8886;--bad:#b3261e;--good:#1b6e3c}
*{box-sizing:border-box}body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:70rem;padding:1rem;
overflow-wrap:anywhere}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}a{color:inherit}
:focus-visible{outline:3px solid #2a6fdb;outline-offset:2px}
.block{color:var(--bad)}.pass{color:var(--good)}
@media (prefers-color-scheme:dark){:root{--bad:#ff8a80;--good:#7bd8a0}}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{border-bottom:1px solid var(--line);padding:.25rem .5rem;
text-align:left;vertical-align:top;overflow-wrap:anywhere}td.n,th.n{text-align:right;white-space:nowrap}
.wide{overflow-x:auto}.bar{display:flex;height:1rem;min-width:12rem;background:#8883;border-radius:2px;overflow:hidden}
.bar i{display:block;height:100%}.key{display:flex;flex-wrap:wrap;gap:.25rem 1rem;padding:0;list-style:none}
.key i{display:inline-block;width:.8rem;height:.8rem;margin-right:.35rem;border-radius:2px}
svg{max-width:100%;height:auto}svg rect{fill:#2a6fdb}svg text{fill:currentColor;font-size:11px}
.skip{position:absolute;left:-999rem}.skip:focus{position:static}
"""


def escape(text: str) -> str:
    """Return a text for the page: markup as text, control characters as escapes."""
    return as_html(printable(text))


Cell = tuple[str, bool]
"""Text of a table's cell, and whether it is a number."""
_COLOURS = ("#7b3fb3", "#b3823f", "#2a6fdb", "#1f9e89", "#d1495b", "#6c757d", "#c9a800", "#444444", "transparent")


def report(result: GateResult, picture: Picture) -> bytes:
    """Return the page (R195, R196, R209)."""
    parts = [
        "<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'">',
        f"<title>Release gate: {result.verdict}</title>", f"<style>{_STYLE}</style>", "</head>", "<body>",
        '<a class="skip" href="#main">Skip to the verdict</a>', '<main id="main" tabindex="-1">',
        *_verdict(result), *_reasons(result, picture), *_coverage(result), *_evidence(result), *_integration(result),
        *_histograms(picture), *_bars(picture), "</main>", "</body>", "</html>", "",
    ]  # fmt: skip
    return "\n".join(parts).encode()


def _verdict(result: GateResult) -> Iterator[str]:
    yield f'<h1>Release gate: <strong class="{result.verdict}">{result.verdict}</strong></h1>'
    yield f"<p>Candidate <code>{escape(result.candidate_id)}</code></p>"
    yield f"<p>{result.cells:,} cells, {result.blocked:,} blocked, {result.reused:,} taken from an earlier run.</p>"
    yield f"<p>{escape(result.claim)}</p>"


def _table(
    heads: Iterable[tuple[str, bool]], rows: Iterable[Iterable[tuple[str, bool]]], caption: str
) -> Iterator[str]:
    # A region that scrolls must be reachable by keyboard.
    yield f'<div class="wide" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
    yield f"<caption>{escape(caption)}</caption><thead><tr>"
    yield "".join(f'<th scope="col"{_number(number)}>{escape(text)}</th>' for text, number in heads)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td{_number(number)}>{text}</td>" for text, number in row) + "</tr>"
    yield "</tbody></table></div>"


def _number(number: bool) -> str:
    return ' class="n"' if number else ""


def _plain(*texts: str) -> list[Cell]:
    return [(escape(text), False) for text in texts]


def _reasons(result: GateResult, picture: Picture) -> Iterator[str]:
    yield "<h2>What blocks</h2>"
    if not result.reasons:
        yield "<p>Nothing.</p>"
        return
    rows = []
    for reason in result.reasons[:400]:
        row = GATE_CODES[reason.code]
        rows.append(_plain(reason.code, reason.id, row.meaning, row.remedy))
    yield from _table([(name, False) for name in ("code", "where", "meaning", "remedy")], rows, "Reasons")
    left = len(result.reasons) - len(rows) + result.unlisted
    if left:
        yield f"<p>{left:,} more stand in the results of the cells.</p>"
    yield from _cells(picture.blocked)


def _cells(cells: list[CellResult]) -> Iterator[str]:
    if cells:
        rows = [_plain(one.sample_id, one.family, one.bundle_id, one.tier, one.outcome,
                       ", ".join(sorted({reason.code for reason in one.reasons}))) for one in cells]  # fmt: skip
        heads = [(name, False) for name in ("sample", "family", "bundle", "tier", "outcome", "codes")]
        yield from _table(heads, rows, "Blocked cells")


def _bars(picture: Picture) -> Iterator[str]:
    yield "<h2>Where the tokens are</h2>"
    yield '<ul class="key">'
    for (name, _), colour in zip(SECTIONS, _COLOURS, strict=True):
        yield f'<li><i style="background:{colour};border:1px solid #888"></i>{name}</li>'
    yield "</ul>"
    heads = [("sample", False), ("bundle", False), ("tier", False), ("account", False), ("used", True), ("limit", True)]
    rows = [[*_plain(bar.sample_id, bar.bundle_id, bar.tier), (_bar(bar), False),
             (f"{bar.limit - bar.tokens[-1]:,}", True), (f"{bar.limit:,}", True)] for bar in picture.bars]  # fmt: skip
    yield from _table(heads, rows, "Token account of each cell, as shares of its limit")
    if picture.left_out:
        yield f"<p>{picture.left_out:,} more cells stand in the results file.</p>"


def _bar(bar: Bar) -> str:
    words = ", ".join(f"{name} {count}" for (name, _), count in zip(SECTIONS, bar.tokens, strict=True) if count)
    pieces = "".join(
        f'<i style="width:{100 * count / bar.limit:.2f}%;background:{colour}"></i>'
        for count, colour in zip(bar.tokens, _COLOURS, strict=True)
        if count
    )
    return f'<div class="bar" role="img" aria-label="{escape(words)}" title="{escape(words)}">{pieces}</div>'


def _histograms(picture: Picture) -> Iterator[str]:
    yield "<h2>Headroom</h2>"
    for bundle_id, counts in picture.headroom.items():
        most = max(counts)
        words = ", ".join(f"{5 * at} to {5 * at + 5} %: {count}" for at, count in enumerate(counts) if count)
        yield f"<h3>{escape(bundle_id)}</h3>"
        yield f'<svg viewBox="-24 -8 688 156" width="688" role="img" aria-label="{escape(words)}">'
        for at, count in enumerate(counts):
            height = 110 * count / most
            yield f'<rect x="{at * 32 + 2}" y="{120 - height:.1f}" width="28" height="{height:.1f}"/>'
            if count:
                yield f'<text x="{at * 32 + 16}" y="{115 - height:.1f}" text-anchor="middle">{count}</text>'
        for at in range(0, BUCKETS + 1, 5):
            yield f'<text x="{at * 32}" y="140" text-anchor="middle">{5 * at} %</text>'
        yield f"</svg><p>Cells by the share of the limit that stays free: {escape(words)}.</p>"


def _coverage(result: GateResult) -> Iterator[str]:
    coverage = result.coverage
    yield "<h2>What was run, and what was not</h2>"
    rows = [[*_plain(name), (f"{count:,}", True)] for name, count in coverage.families.items()]
    yield from _table([("family", False), ("cells", True)], rows, "Cells per family")
    rows = [[*_plain(name), (f"{count:,} of {result.cells:,}", True)] for name, count in result.compared.items()]
    heads = [("candidate's", False), ("cells", True)]
    yield from _table(
        heads, rows, "Cells in which bundle or sample state the same of the candidate, and it was compared"
    )
    yield f"<p>Bundles: {escape(', '.join(coverage.bundles))}. Tiers: {escape(', '.join(coverage.tiers))}.</p>"
    if not coverage.targets:
        yield "<p>No matrix of targets was given: nothing is said about any device.</p>"
        return
    if not coverage.uncovered:
        yield f"<p>Every one of {coverage.targets:,} targets is measured.</p>"
        return
    rows = [_plain(one.status, one.os, one.abi, one.vendor, one.runtime, one.runtime_version, one.app_version)
            for one in coverage.uncovered]  # fmt: skip
    heads = [(name, False) for name in ("status", "system", "ABI", "vendor", "runtime", "version", "app")]
    yield from _table(heads, rows, "Targets that are not measured")


def _evidence(result: GateResult) -> Iterator[str]:
    yield "<h2>Evidence beside the structure</h2>"
    rows = [_plain(part.name, part.detail, part.digest or "") for part in result.evidence]
    yield from _table([(name, False) for name in ("part", "state", "digest")], rows, "Evidence")


def _integration(result: GateResult) -> Iterator[str]:
    yield "<h2>Looked at again on each platform</h2>"
    if not result.integration:
        yield "<p>Not checked on any platform.</p>"
        return
    for one in result.integration:
        rows = [_plain(item.id, item.kind, "checked" if item.id in one.checked else "not checked", item.what)
                for item in RECHECK]  # fmt: skip
        caption = f"{one.platform}, after the documentation of {one.documentation}"
        yield from _table([(name, False) for name in ("item", "kind", "state", "what")], rows, caption)
