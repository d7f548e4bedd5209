"""`planner reasons`: the table of codes for people, and the page of the documentation made from it."""

from __future__ import annotations

import difflib
import json
from dataclasses import asdict

import click

from planner.cli.failure import REFUSED, complain, usage
from planner.cli.files import read_input
from planner.values.code import Code
from planner.values.reasons import CODES

KINDS = {
    "refusal": "A plan was asked for and the answer is no. `planner` exits 2, a receipt is made.",
    "fault": "A bundle, a file or the machine cannot be used. `planner` exits 2, there is no receipt.",
    "removal": "Why an item is not in an accepted prompt.",
    "flag": "What a reader of an accepted plan should know.",
    "prefix": "What ended the part that a prompt shares with the previous one.",
}
MAX_PAGE_BYTES = 1024 * 1024

EPILOG = """\b
Examples:
  planner reasons
  planner reasons template_drops
  planner reasons --check docs/reasons.md
"""


@click.command("reasons", epilog=EPILOG)
@click.argument("code", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
@click.option("--markdown", is_flag=True, help="Print the page docs/reasons.md.")
@click.option("--check", metavar="FILE", help="Exit 2 unless FILE is the page that --markdown prints.")
def command(code: str | None, as_json: bool, markdown: bool, check: str | None) -> int:
    """Explain every code a plan, refusal or fault may carry: what it means and what to do."""
    if check is not None:
        return _compare(check)
    if markdown:
        click.echo(page(), nl=False)
        return 0
    found = _found(code)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in found], indent=1))
    else:
        from planner.cli.draw import rows

        rows(("code", "kind", "meaning", "what to do"), [_cells(row) for row in found])
    return 0


def page() -> str:
    """Return docs/reasons.md: one table per kind, in the order of the table."""
    lines = [
        "# Codes",
        "",
        "Generated from `planner/values/reasons.py` by `planner reasons --markdown`; do not edit by hand.",
        "A code may carry a kind after a colon, such as `template_drops:tools`.",
        "",
    ]
    for kind, sentence in KINDS.items():
        lines += [f"## {kind}", "", sentence, "", "| code | meaning | what to do |", "| --- | --- | --- |"]
        for row in CODES.values():
            if row.kind == kind:
                shared = f" Reported under the outcome `{row.outcome}`." if row.outcome else ""
                lines.append(f"| `{row.name}` | {row.meaning}{shared} | {row.remedy} |")
        lines.append("")
    return "\n".join(lines)


def _found(code: str | None) -> list[Code]:
    if code is None:
        return list(CODES.values())
    row = CODES.get(code.partition(":")[0])
    if row is None:
        near = difflib.get_close_matches(code, CODES, n=3)
        raise usage(f"no such code; nearest: {', '.join(near)}" if near else "no such code")
    return [row]


def _cells(row: Code) -> tuple[str, str, str, str]:
    return row.name, row.kind, row.meaning, row.remedy


def _compare(name: str) -> int:
    if read_input(name, MAX_PAGE_BYTES) == page().encode():
        return 0
    complain("invalid-input", "the page is not current; write it with planner reasons --markdown")
    return REFUSED
