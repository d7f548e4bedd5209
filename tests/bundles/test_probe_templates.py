"""Published templates: the probe agrees with a table measured by other code (facts-bundles.md §5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from planner.bundles.measure import measure
from planner.values.profile import Carried, TemplateProfile
from planner.values.reasons import PlannerFault

STRINGS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
CARRIED: Mapping[str, Carried] = {"+": "kept", "D": "dropped", "R": "raises"}
ORDER = ("kept", "dropped", "raises")

REFUSED = {
    "fireworks-ai-llama-3-firefunction-v2": "template_rejected",  # raises on every chat, tools or not
    "muse-glimmer": "template_content_dependent",  # rewrites two words of the system text
}

_TOOLS_ONLY = dict.fromkeys(
    ("sys", "mid", "dev", "uu", "aa", "A1", "rsn", "trim", "bos", "gen"),
    "renders only with tools; the table had none",
)
_PARTS = dict.fromkeys(
    ("sys", "mid", "dev", "uu", "aa", "A1", "calls", "rsn", "trim", "</t>"),
    "takes parts; the table gave strings",
)
_FORM = {"calls": "carries calls in one of the two forms of arguments; the table tried objects"}
_FIRST = {"mid": "the late text replaces the first one; the table had no first one"}
_BESIDE = {"trim": "trims the assistant's text beside reasoning or a call only; the table had neither"}
_LITERAL = {"bos": "writes it as a literal; the table looked for the variable"}
_FRAMING = {"</t>": "keeps the text before the tag but frames it otherwise; the table looked for lost text"}

EXPLAINED: dict[str, Mapping[str, str]] = {
    "CohereForAI-c4ai-command-r-plus-tool_use": _TOOLS_ONLY,
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": _TOOLS_ONLY,
    "trl-idefics3": _PARTS,
    "trl-smolvlm": _PARTS,
    "trl-llava_next": _PARTS,
    "meetkai-functionary-medium-v3.2": _FORM,
    "trl-deepseekv3": _FORM,
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": _FIRST,
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": _FIRST,
    "llama-cpp-deepseek-r1": _FIRST,
    "llama-cpp-rwkv-world": _FIRST,
    "trl-deepseek_r1_distill": _FIRST,
    "bundle:llama-2-spm": _LITERAL,
    "bundle:mistral-v1-spm": _LITERAL,
    "bundle:mistral-v3-spm": _LITERAL,
    "bundle:smollm2": {"bos": "opens every message with the text of its bos_token"},
    "bundle:qwen3-0.6b": _BESIDE,
    "Qwen-Qwen3-0.6B": _BESIDE,
    "Qwen-QwQ-32B": _BESIDE,
    "Qwen3-Coder": _BESIDE,
    "trl-qwen3": _BESIDE,
    "HuggingFaceTB-SmolLM3-3B": _BESIDE,
    "inclusionai-ling-3.0-flash": {**_BESIDE, **_FRAMING},
    "openbmb-MiniCPM5-1B": _BESIDE,
    "Reka-Edge": _BESIDE,
    "Bielik-11B-v3.0-Instruct": _FRAMING,
    "LFM2.5-Instruct": _FRAMING,
    "MiniMax-M3": _FRAMING,
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": _FRAMING,
    "poolside-Laguna-XS-2.1": _FRAMING,
    "poolside-Laguna-XS.2": _FRAMING,
    "trl-nemotron_3_5_lightning": _FRAMING,
    "trl-nemotron_3_super": _FRAMING,
    "trl-nemotron_3_ultra": _FRAMING,
}
"""Differences looked at one by one: what the probe says there is what the template does."""


def table(shared: Path) -> dict[str, dict[str, str]]:
    """Read the table: template -> column -> cell."""
    lines = (shared / "facts-bundles.md").read_text(encoding="utf-8").splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("| template | sys |"))
    names = [cell.strip() for cell in lines[start].strip("|").split("|")]
    rows: dict[str, dict[str, str]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        rows[cells[0].partition(" (=")[0]] = dict(zip(names, cells, strict=True))
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
    """Every template of the table, measured in this process."""
    found: dict[str, TemplateProfile | PlannerFault] = {}
    for name in table(shared_dir):
        source, strings = source_of(name, shared_dir, bundle_dir)
        try:
            found[name] = measure(source, strings)
        except PlannerFault as fault:
            found[name] = fault
    return found


Measured = Mapping[str, TemplateProfile | PlannerFault]


def test_the_probe_agrees_with_the_table_of_published_templates(shared_dir: Path, measured: Measured) -> None:
    """Every difference is one of those that were looked at, and each of those is still there."""
    rows = table(shared_dir)
    assert len(rows) > 90
    found = {
        (name, column)
        for name, profile in measured.items()
        if isinstance(profile, TemplateProfile)
        for column in differences(rows[name], profile)
    }
    explained = {(name, column) for name, columns in EXPLAINED.items() for column in columns}
    assert found <= explained
    names = {name for name, _ in found}
    assert names == set(EXPLAINED)


def test_honest_templates_are_not_refused(measured: Measured) -> None:
    """Two published templates are: one renders no chat at all, one rewrites words of the system text."""
    refused = {name: fault.code for name, fault in measured.items() if isinstance(fault, PlannerFault)}
    assert refused == REFUSED


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
