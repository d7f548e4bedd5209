"""Published templates: the probe agrees with a table measured by other code (facts-bundles.md §5), and with our page.

template_differences.json holds every cell in which probe and table differ, looked at one by one: what the probe says
there is what the template does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from planner.bundles.measure import measure
from planner.values.profile import Carried, TemplateProfile
from planner.values.reasons import PlannerFault
from tests.bundles.test_shipped_bundles import ROOT, tool

DIFFERENCES = json.loads((Path(__file__).parent / "template_differences.json").read_text(encoding="utf-8"))
STRINGS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
CARRIED: Mapping[str, Carried] = {"+": "kept", "D": "dropped", "R": "raises"}
ORDER = ("kept", "dropped", "raises")


def explained() -> set[tuple[str, str]]:
    """Return the cells of the data file: (template, column)."""
    rows = DIFFERENCES["differences"]
    return {(name, column) for row in rows for name in row["templates"] for column in row["columns"]}


def table(shared: Path) -> dict[str, dict[str, str]]:
    """Read the table: template -> column -> cell. A row may stand for several files of the same bytes."""
    lines = (shared / "facts-bundles.md").read_text(encoding="utf-8").splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("| template | sys |"))
    names = [cell.strip() for cell in lines[start].strip("|").split("|")]
    rows: dict[str, dict[str, str]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        first, _, others = cells[0].partition(" (= ")
        for name in (first, *(other.strip() for other in others.rstrip(")").split(",") if other)):
            rows[name] = dict(zip(names, cells, strict=True))
    return rows


def source_of(name: str, shared: Path, bundles: Path) -> tuple[str, dict[str, str]]:
    """Return a row's template and the strings of its bundle."""
    if not name.startswith("bundle:"):
        return (shared / "templates" / f"{name}.jinja").read_text(encoding="utf-8"), STRINGS
    folder = bundles / name.removeprefix("bundle:")
    config_file, template_file = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    config = json.loads(config_file.read_text(encoding="utf-8")) if config_file.is_file() else {}
    strings = {
        key: value if isinstance(value, str) else value["content"]
        for key, value in {**({} if config else STRINGS), **config}.items()
        if key in STRINGS and value
    }
    if template_file.is_file():
        return template_file.read_text(encoding="utf-8"), strings
    return config["chat_template"], strings


def worst(*verdicts: Carried) -> Carried:
    return max(verdicts, key=ORDER.index)


def trimmed(profile: TemplateProfile) -> str:
    roles = (("u", "user"), ("a", "assistant"), ("s", "system"))
    return "".join(letter for letter, role in roles if role in profile.trims) or "-"


def tag(profile: TemplateProfile) -> str:
    return "D" if any(p.role == "assistant" and "think>" in p.opener for p in profile.parsed_strings) else "+"


CELLS: dict[str, Callable[[TemplateProfile], Carried]] = {
    "sys": lambda p: p.system,
    "mid": lambda p: p.late_system,
    "dev": lambda p: p.developer,
    "uu": lambda p: p.neighbouring_users,
    "aa": lambda p: p.neighbouring_assistants,
    "A1": lambda p: p.assistant_first,
    "tools": lambda p: p.tools,
    "calls": lambda p: worst(p.tool_call, p.tool_result),
    "rsn": lambda p: p.old_reasoning,
}
CALL_CELLS: dict[str, Callable[[TemplateProfile], Carried]] = {
    "par": lambda p: p.parallel_calls,
    "txt": lambda p: p.text_beside_call,
}
GENERATION = {"+": "appended", "ign": "ignored", "body": "rewrites"}


def differences(row: Mapping[str, str], profile: TemplateProfile) -> Iterator[str]:
    """Name the columns in which the profile says something else than the row."""
    cells = CELLS | (CALL_CELLS if row["calls"] == "+" else {})
    for column, cell in cells.items():
        if row[column] in CARRIED and CARRIED[row[column]] != cell(profile):
            yield column
    if row["calls"] == "+":
        if (row["none"] == "R") != (profile.null_content == "raises"):
            yield "none"
        if (row["id"] == "R") != (profile.call_ids == "nine_alphanumerics"):
            yield "id"
        if row["str"] == "R" and profile.text_arguments != "object":
            yield "str"
    if sorted(row["trim"]) != sorted(trimmed(profile)):
        yield "trim"
    if row["</t>"] in "+D" and row["</t>"] != tag(profile):
        yield "</t>"
    if (row["bos"] == "y") != profile.writes_bos:
        yield "bos"
    if GENERATION.get(row["gen"]) != profile.generation_prompt:
        yield "gen"
    if profile.uses_clock and row["date"] != "y":
        yield "date"
    # Ours is about prompts with a generation prompt; the table's cells about lists without one.
    if "x" in row["append p/n/t/k"][:3] and row["gen"] != "body" and profile.append_stable:
        yield "append"


@pytest.fixture(scope="module")
def measured(shared_dir: Path, bundle_dir: Path) -> dict[str, TemplateProfile | PlannerFault]:
    """Every template of the table, measured in this process; files of the same bytes once."""
    found: dict[str, TemplateProfile | PlannerFault] = {}
    known: dict[str, TemplateProfile | PlannerFault] = {}
    for name in table(shared_dir):
        source, strings = source_of(name, shared_dir, bundle_dir)
        key = json.dumps([source, strings])
        if key not in known:
            try:
                known[key] = measure(source, strings)
            except PlannerFault as fault:
                known[key] = fault
        found[name] = known[key]
    return found


Measured = Mapping[str, TemplateProfile | PlannerFault]


def test_every_published_template_is_in_the_table(shared_dir: Path) -> None:
    """No file is left out of the comparison."""
    files = {path.stem for path in (shared_dir / "templates").glob("*.jinja")}
    assert len(files) == 113
    assert files == {name for name in table(shared_dir) if not name.startswith("bundle:")}


def test_the_probe_agrees_with_the_table_of_published_templates(shared_dir: Path, measured: Measured) -> None:
    """Every difference is one of those that were looked at, and each of those is still there."""
    rows = table(shared_dir)
    found = {
        (name, column)
        for name, profile in measured.items()
        if isinstance(profile, TemplateProfile)
        for column in differences(rows[name], profile)
    }
    assert found - explained() == set()
    assert explained() - found == set()


def test_honest_templates_are_not_refused(measured: Measured) -> None:
    """Few published templates are, and the data file says why."""
    refused = {name: fault.code for name, fault in measured.items() if isinstance(fault, PlannerFault)}
    assert refused == {name: code for name, (code, _) in DIFFERENCES["refused"].items()}


def test_the_page_of_templates_is_what_is_measured(shared_dir: Path, measured: Measured) -> None:
    """Every line of docs/templates.md comes from the probe of this version; the long run makes the page anew."""
    maker = tool("template_table/make.py")
    page = (ROOT / "docs" / "templates.md").read_text(encoding="utf-8")
    lines = maker.rows_of(page)
    paths = {path.stem: path for path in (shared_dir / "templates").glob("*.jinja")}
    assert lines.keys() == paths.keys()
    wrong = [name for name, path in paths.items() if lines[name] != maker.row(path, measured[name])]
    assert wrong == []
    if os.environ.get("PLANNER_FULL"):
        assert page == maker.page(shared_dir / "templates")


def test_every_probe_ends_within_its_bound_of_renders(measured: Measured) -> None:
    """At most 1,200 renders a template (design.md §6)."""
    renders = [p.probe_renders for p in measured.values() if isinstance(p, TemplateProfile)]
    assert max(renders) <= 1_200


def test_splicing_is_proven_for_nearly_all_published_templates(measured: Measured) -> None:
    """Index-dependent text, first/last conditions and text that moves to the last user message are not."""
    refused = {n for n, p in measured.items() if isinstance(p, TemplateProfile) and p.splice_depth is None}
    assert refused == {
        "Cohere2MoE",
        "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
        "Kimi-K2-Thinking",
        "Mistral-Small-3.2-24B-Instruct-2506",
        "bundle:mistral-nemo-tekken",
        "bundle:mistral-v3-spm",
        "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
        "mistralai-Mistral-Nemo-Instruct-2407",
        "trl-deepseekv3",
    }
