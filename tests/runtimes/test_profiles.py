"""Runtimes in manifests: reviewed rows, what a deployment declares, and nothing taken from another engine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.digest import bundle_digest
from planner.bundles.manifest import dump_manifest, parse_manifest
from planner.bundles.runtime_json import runtime_from_json, runtime_named, runtime_to_json
from planner.planner import Planner
from planner.steps.window import ceiling, resolve_window
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault
from planner.values.request import PlanRequest
from planner.values.runtime import Runtime
from planner.values.runtime_rows import RUNTIMES
from tests.peers.support import chat
from tests.support.toy import ToyBundle

ROOT = Path(__file__).resolve().parents[2]
DECLARED: dict[str, Any] = {"name": "llama.cpp", "version": "xllamacpp-2026.10.11549", "slots": 4,
                            "contextTokens": 98_304, "overheadTokens": 3, "outputLimit": 2_048}  # fmt: skip


def manifest_with(runtime: Any) -> bytes:
    """Return the reference manifest with another runtime."""
    value = json.loads((ROOT / "model_bundles/reference/bundle.json").read_text("utf-8"))
    return json.dumps(value | {"runtime": runtime}).encode()


@pytest.mark.parametrize("value", [None, *RUNTIMES, DECLARED, {**DECLARED, "name": "mlx-lm"}], ids=str)
def test_a_manifest_gives_its_runtime_back(value: Any) -> None:
    """parse and dump agree, whether a name stands there or an object."""
    parsed = parse_manifest(manifest_with(value))
    assert value == json.loads(dump_manifest(parsed))["runtime"]
    assert parsed == parse_manifest(dump_manifest(parsed))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("llama", "$.runtime"), (7, "$.runtime"), ({}, "$.runtime.name"), ({"name": "x"}, "$.runtime.name"),
        ({**DECLARED, "slots": 0}, "$.runtime.slots"), ({**DECLARED, "slots": True}, "$.runtime.slots"),
        ({**DECLARED, "contextTokens": 3}, "$.runtime.contextTokens"),
        ({**DECLARED, "version": "a b"}, "$.runtime.version"), ({**DECLARED, "more": 1}, "$.runtime"),
        ({**DECLARED, "reportedMeaning": "all"}, "$.runtime.reportedMeaning"),
        ({**DECLARED, "keptBackTokens": 0}, "$.runtime"),
    ],
    ids=str,
)  # fmt: skip
def test_a_runtime_that_breaks_a_rule_is_named_by_its_path(value: Any, path: str) -> None:
    """An engine without a row, a wrong figure, an unknown key: manifest_invalid, never another engine's row."""
    with pytest.raises(PlannerFault) as caught:
        parse_manifest(manifest_with(value))
    assert "manifest_invalid" == caught.value.code
    assert f"manifest_invalid: {path}: " in str(caught.value)


def test_everything_of_a_runtime_is_part_of_the_identity() -> None:
    """The engine, its version, each declared figure and each reviewed rule: another one is another bundle."""
    first = runtime_from_json(DECLARED, "$")
    changed = [first, *(runtime_from_json({**DECLARED, **more}, "$") for more in (
        {"name": "mlx-lm"}, {"version": "b1"}, {"slots": 2}, {"contextTokens": 4_096}, {"overheadTokens": 0},
        {"outputLimit": 1}, {"totalLimit": 9_000}, {"minPrefillTokens": 1}, {"reportedMeaning": "unknown"},
    ))]  # fmt: skip
    changed.append(replace(first, profile=replace(first.profile, kept_back_tokens=0)))
    manifest = ToyBundle().manifest
    digests = [bundle_digest(replace(manifest, runtime=one)) for one in (None, *changed)]
    assert len(changed) + 1 == len(set(digests))


def test_R173_no_constraint_extrapolation() -> None:
    """R173: each engine's own reviewed rules hold, in the reviewed version; none is taken over to another engine."""
    request = PlanRequest("toy-plain-char", max_input_tokens=60_000, reserved_output_tokens=0, safety_margin_tokens=0)

    def budget(runtime: Runtime | None) -> int:
        return resolve_window(
            request, replace(ToyBundle().manifest, context_tokens=1_000, runtime=runtime)
        ).window.budget

    budgets = {name: budget(Runtime(row)) for name, row in RUNTIMES.items()}
    assert 1_000 == budget(None), "nothing is deducted for no runtime"
    assert {"llama.cpp": 999, "transformers": 999, "litert-lm": 999, "onnx-genai": 999, "mlx-lm": 999} == budgets
    # Rounding up is one engine's in one version: elsewhere the declared figure stands.
    windows = {
        row.name: ceiling(replace(ToyBundle().manifest, runtime=Runtime(row, version, context_tokens=300)))
        for row in RUNTIMES.values()
        for version in ("none reviewed", *row.versions)
    }
    assert {"llama.cpp": 511, "transformers": 300, "litert-lm": 300, "onnx-genai": 300, "mlx-lm": 300} == windows
    llama = Runtime(RUNTIMES["llama.cpp"], "b1", context_tokens=300)
    assert 299 == ceiling(replace(ToyBundle().manifest, runtime=llama))
    with pytest.raises(PlannerFault, match="is none of the reviewed engines"):
        runtime_from_json({"name": "executorch", "contextTokens": 300}, "$.runtime")


def test_the_receipt_names_runtime_and_version() -> None:
    """Name, version, what is deducted, and in the account a line of its own."""
    runtime = runtime_from_json(DECLARED, "$")
    bundle = ToyBundle(runtime=runtime, context_tokens=98_304, longest_token_bytes=None)
    answer = Planner(bundle).plan(chat(max_input_tokens=None))
    assert isinstance(answer, Plan)
    figures = answer.account
    assert ("llama.cpp", "xllamacpp-2026.10.11549") == (answer.receipt.runtime, answer.receipt.runtime_version)
    assert (3, 24_575) == (figures.runtime_overhead_tokens, figures.input_limit)
    assert len(answer.ids) == figures.input_tokens
    parts = (figures.input_tokens, figures.reserved_output_tokens, figures.safety_margin_tokens,
             figures.runtime_overhead_tokens, figures.runtime_kept_tokens, figures.headroom_tokens)  # fmt: skip
    assert figures.input_limit == sum(parts)
    assert 2_048 == answer.max_output_tokens


def test_each_row_says_what_it_rests_on() -> None:
    """Every engine is in the user's page with its versions; a row without a version is never reviewed."""
    page = (ROOT / "docs/bundles.md").read_text("utf-8")
    for name, row in RUNTIMES.items():
        assert name == row.name
        assert f"| `{name}` | {', '.join(row.versions) or 'none'} |" in page
        assert not Runtime(row).reviewed
        assert all(Runtime(row, version).reviewed for version in row.versions)


def test_a_name_alone_is_written_as_a_name() -> None:
    """The short form comes back short; on a command line a version may follow it."""
    assert "onnx-genai" == runtime_to_json(runtime_from_json("onnx-genai", "$"))
    assert runtime_to_json(None) is None
    assert {"name": "llama.cpp", "version": "b1"} == runtime_to_json(runtime_named("llama.cpp@b1", "--runtime"))
    with pytest.raises(PlannerFault, match=r"manifest_invalid: --runtime\.name"):
        runtime_named("llama", "--runtime")
