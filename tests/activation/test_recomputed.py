"""What a change of a template, or of what comes with it, costs: every figure is a plan of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from planner.activation import AS_ASKED, Sample, Trial, budget_runs, builtin_samples, cost_of, examine, within
from planner.bundles.activated import dump_state
from planner.bundles.candidate import open_candidate
from planner.bundles.hf_folder import open_folder
from planner.bundles.manifest import ManifestFile, dump_manifest
from planner.bundles.open import open_bundle
from planner.encoding.template import TemplateFailure, render_plain, variables
from planner.planner import Planner
from planner.runtimes.renderers import Rendered
from planner.steps.activation_verdict import activation_verdict
from planner.values.activation import TemplateState, TemplateVersion
from planner.values.activation_evidence import ActivationEvidence, BudgetRun, Probed
from planner.values.bundle import Bundle
from planner.values.plan import Plan
from planner.values.request import CurrentRequest, OutputSchema, PlanRequest, TextItem, Tool
from tests.activation.conftest import NEWER, sha256
from tests.bundles.test_tokenizer_json import AddedToken, tiny, write_folder


def tool(name: str, told: str) -> Tool:
    """Return a tool of one description."""
    return Tool(name, {"type": "function", "function": {"name": name, "description": told, "parameters": {}}})


ASKED = PlanRequest(
    "reference",
    CurrentRequest(id="q", text="Which room is free?"),
    policy=(TextItem("tone", "Answer in one sentence."), TextItem("safety", "Never open a panel.")),
    data_scope=(TextItem("site", "This building only."),),
    tools=(tool("rooms", "List rooms."), tool("doors", "List doors.")),
    output_schema=OutputSchema("answer", {"type": "object", "properties": {"room": {"type": "string"}}}),
    reserved_output_tokens=64,
)
CHANGES: dict[str, tuple[Callable[[PlanRequest], PlanRequest], str | None, set[str]]] = {
    "system text": (lambda r: replace(r, policy=(TextItem("tone", "Answer in two short sentences, no more."),)),
                    None, {"policy/safety"}),
    "output schema": (lambda r: replace(r, output_schema=None), None, {"schema/answer"}),
    "tool declaration": (lambda r: replace(r, tools=(tool("rooms", "List all the rooms that are free today."),)),
                         None, {"tool/doors"}),
    "body": (lambda r: r, NEWER, set()),
}  # fmt: skip


def with_body(text: str) -> Bundle:
    """Return the shipped bundle with another template."""
    return open_candidate("reference", TemplateVersion(sha256(text), ""), text, user_folder=None, cache_dir=None)[0]


@pytest.mark.parametrize("kind", CHANGES)
def test_R175_template_change_recomputes(kind: str) -> None:
    """R175: cost and the set of immutable ids are measured anew for each kind; an id that vanished blocks by name."""
    change, body, gone = CHANGES[kind]
    bundle: Bundle = with_body(body) if body else open_bundle("reference")
    before, after = Planner("reference"), Planner(bundle)
    changed = change(ASKED)
    runs = budget_runs((Sample("s", ASKED, changed),), [("2.1", AS_ASKED), ("2.1", "4k")], before.plan, after.plan)
    plan = Planner(bundle).plan(changed)
    assert isinstance(plan, Plan)
    # The judge takes nothing of the account: what is in the prompt is the request's own list of ids.
    ids = [f"policy/{one.id}" for one in changed.policy] + ["scope/site"]
    ids += ["schema/answer"] if changed.output_schema else []
    ids += [f"tool/{one.id}" for one in changed.tools] + ["turn/q", "request/q"]
    for run in runs:
        assert (len(plan.ids), plan.receipt.bundle_digest) == (run.after.tokens, run.after.bundle_digest)
        assert sorted(ids) == sorted(name for name, _ in run.after.immutable)
        assert run.before.tokens != run.after.tokens
        assert len(plan.ids) - plan.account.framing_tokens == sum(tokens for _, tokens in run.after.immutable)
    found = activation_verdict(evidence_of(runs, bundle.manifest.digest)).findings
    assert ([("id_vanished", gone)] if gone else []) == [(one.code, set(one.ids)) for one in found]


def evidence_of(runs: tuple[BudgetRun, ...], digest: str) -> ActivationEvidence:
    """Return evidence that nothing but these runs speaks against."""
    profile = open_bundle("reference").profile
    return ActivationEvidence(
        "reference", TemplateVersion("0" * 64, digest), "0" * 64, None, (), probed=Probed(profile, profile), runs=runs
    )


def test_every_figure_is_counted_by_the_bundle_it_is_for() -> None:
    """A count of the bundle before never stands for the bundle after (R180): both digests are on the run."""
    bundle = with_body(NEWER)
    runs = budget_runs(
        builtin_samples("reference"), [(None, "4k")], Planner("reference").plan, Planner(bundle).plan
    )  # fmt: skip
    assert {open_bundle("reference").manifest.digest} == {run.before.bundle_digest for run in runs}
    assert {bundle.manifest.digest} == {run.after.bundle_digest for run in runs}
    for run, sample in zip(runs, builtin_samples("reference"), strict=True):
        plan = Planner(bundle).plan(sample.after)
        assert isinstance(plan, Plan)
        assert len(plan.ids) == run.after.tokens


def test_a_sample_written_for_another_bundle_is_asked_of_this_one() -> None:
    """The candidate counts every sample, whatever bundle its file names (R42)."""
    sample = replace(builtin_samples("qwen3-0.6b")[0], name="theirs")
    trial = Trial("reference", TemplateVersion(sha256(NEWER), ""), NEWER.encode(), samples=(sample,))
    evidence = examine(trial, open_bundle("reference"), lambda bundle: Planner(bundle).plan)
    assert evidence.runs is not None
    assert {evidence.template.bundle_digest} == {run.after.bundle_digest for run in evidence.runs}
    assert {open_bundle("reference").manifest.digest} == {run.before.bundle_digest for run in evidence.runs}
    assert activation_verdict(evidence).passes


def test_a_refusal_costs_what_was_measured_of_it() -> None:
    """An overflow has its figures, a shape that is refused has none; neither has immutable ids."""
    planner = Planner("reference")
    small = cost_of(planner.plan(within(ASKED, None, "80")))
    assert ("context_policy_overflow", 80, ()) == (small.reason, small.input_limit, small.immutable)
    assert small.tokens is not None
    assert small.tokens > 80
    unknown = cost_of(planner.plan(within(ASKED, None, "no-such-tier")))
    assert ("invalid-input", None) == (unknown.reason, unknown.tokens)


def test_a_limit_is_a_tier_a_number_or_the_samples_own() -> None:
    """The three forms, and the app's version beside them."""
    assert ("4k", None, "2") == (
        within(ASKED, "2", "4k").tier_id, within(ASKED, "2", "4k").max_input_tokens, within(ASKED, "2", "").app_version,
    )  # fmt: skip
    assert (None, 512) == (within(ASKED, None, "512").tier_id, within(ASKED, None, "512").max_input_tokens)
    assert within(ASKED, None, AS_ASKED) is ASKED


@dataclass(frozen=True)
class Engine:
    """An engine that does as the reference does, but writes another word where a text is absent."""

    name: str
    absent: str | None = None
    version: str = "-"
    drops_bos: bool = False
    switches: Mapping[str, Any] = field(default_factory=dict)
    now: str = "2026-11-30T12:00:00+00:00"

    def render(
        self, source: str, strings: Mapping[str, str], cases: Sequence[Mapping[str, Any]]
    ) -> tuple[Rendered, ...]:
        """Render each case."""
        found = []
        for one in cases:
            messages = [dict(message) for message in one["messages"]]
            for message in messages:
                if self.absent is not None and message.get("content") is None:
                    message["content"] = self.absent
            try:
                text = render_plain(source, variables(messages, one["tools"], {}, strings, self.now))
            except TemplateFailure:
                text = None
            found.append(Rendered(text, "" if text is not None else "raises"))
        return tuple(found)


def test_a_renderer_that_differs_blocks_and_names_the_shapes() -> None:
    """Where an engine renders some shape otherwise, the template is not activated for it; one that agrees is free."""
    engines = (Engine("same"), Engine("other", absent="None"))
    trial = Trial("reference", TemplateVersion(sha256(NEWER), ""), NEWER.encode(), engines=engines)
    evidence = examine(trial, open_bundle("reference"), lambda bundle: Planner(bundle).plan)
    found = activation_verdict(evidence).findings
    assert ["differs_on_renderer"] == [one.code for one in found]
    assert "null_content" in found[0].ids
    assert found[0].sentence.startswith("other ")
    alone = replace(trial, engines=engines[:1])
    assert activation_verdict(examine(alone, open_bundle("reference"), lambda bundle: Planner(bundle).plan)).passes


def test_bytes_that_are_no_text_are_refused_as_the_probe_refuses() -> None:
    """A template is UTF-8; anything else is a finding, not a fault of the bundle."""
    data = b"\xff\xfe"
    broken = Trial("reference", TemplateVersion(hashlib.sha256(data).hexdigest(), ""), data)
    refused = examine(broken, open_bundle("reference"), lambda bundle: Planner(bundle).plan)
    assert refused.probed is not None
    assert "bundle_unsafe: the template is not UTF-8 text" == refused.probed.fault


WRITES = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>{% endfor %}"


def test_what_a_new_template_writes_becomes_a_control_token(tmp_path: Path) -> None:
    """An added token that only the new template writes: content that spells it stays text from then on."""
    tokenizer = tiny()
    tokenizer.add_tokens([AddedToken("[tool]", special=False, normalized=False)])
    folder = write_folder(tmp_path / "mine", tokenizer, chat_template=WRITES, eos_token="<|end|>")
    made = ManifestFile(open_folder(folder).manifest, template_file="tokenizer_config.json")
    (folder / "bundle.json").write_bytes(dump_manifest(made))
    text = WRITES.replace("{{ m.role }}", "[tool]{{ m.role }}")
    version = TemplateVersion(sha256(text), "")
    bundle, full = open_candidate("mine", version, text, user_folder=tmp_path, cache_dir=None)
    assert ["[tool]"] == [token.text for token in full.control_tokens]
    assert full.bundle_digest == bundle.manifest.digest
    answer = Planner(bundle).plan(messages=[{"role": "user", "content": "say [tool] now"}], max_input_tokens=5_000)
    assert isinstance(answer, Plan)
    number = full.control_tokens[0].id
    assert 1 == list(answer.ids).count(number)
    assert 1 == answer.receipt.neutralised


def test_a_bundle_of_the_user_by_id_is_served_and_by_path_is_its_own(tmp_path: Path) -> None:
    """The record belongs to the id; whoever names the folder gets what its manifest says."""
    folder = write_folder(tmp_path / "mine", tiny(), chat_template=WRITES, eos_token="<|end|>")
    made = ManifestFile(open_folder(folder).manifest, template_file="tokenizer_config.json")
    (folder / "bundle.json").write_bytes(dump_manifest(made))
    text = WRITES.replace("{{ m.role }}", "{{ m.role }} says")
    _, full = open_candidate("mine", TemplateVersion(sha256(text), ""), text, user_folder=tmp_path, cache_dir=None)
    (folder / "activated").mkdir()
    (folder / "activated" / f"{full.sha256}.jinja").write_text(text, encoding="utf-8")
    (folder / "activation.json").write_bytes(dump_state(TemplateState("mine", made.manifest.digest, full)))
    by_id, by_path = open_bundle("mine", user_folder=tmp_path), open_bundle(folder)
    assert (text, WRITES) == (by_id.template_source, by_path.template_source)
    assert (full.bundle_digest, made.manifest.digest) == (by_id.manifest.digest, by_path.manifest.digest)
    assert by_id.for_app("9") is by_id.for_app(None)
    assert by_path.for_app("9") is by_path
    assert by_id.profile.template_digest == full.sha256
