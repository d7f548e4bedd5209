"""From a command line to a judged template, and the two writes that activate it or take it back."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.cli.asking import read_request
from planner.cli.failure import usage
from planner.cli.files import cache_folder, not_readable, read_input, user_folder, write_output
from planner.values.activation import AuditRow, TemplateState, TemplateVersion, activated, noted, stepped_back
from planner.values.activation_evidence import ActivationEvidence
from planner.values.field_rules import is_id, is_version
from planner.values.reasons import PlannerFault

if TYPE_CHECKING:
    from planner.activation import Planning, Sample
    from planner.steps.activation_verdict import ActivationVerdict
    from planner.values.bundle import Bundle
    from planner.values.request import PlanRequest

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Judged:
    """A template with its evidence; `base_digest` is the bundle's with its built-in template."""

    evidence: ActivationEvidence
    base_digest: str
    data: bytes | None = field(repr=False)


def judge(ref: str, path: str, given: dict[str, Any]) -> Judged:
    """Gather the evidence on a template file. Raises what opening a bundle and reading requests raise."""
    from planner.activation import Trial, examine
    from planner.bundles.candidate import open_built_in
    from planner.bundles.open import open_bundle
    from planner.cli.bundle_portability import renderer_named
    from planner.gate.reading import read_matrix

    built_in = open_built_in(ref, user_folder=user_folder(), cache_dir=cache_folder()).manifest
    version = _version(given, built_in.template_entry or "default")
    data = _fetched(path)
    trial = Trial(
        ref,
        version,
        data,
        app_version=given["app_version"],
        cells=read_matrix(Path(given["matrix"])) if given["matrix"] else None,
        samples=_pairs(given["samples"], given["published"]),
        engines=tuple(renderer_named(name, given["npm"], given["llama_url"]) for name in given["renderer"]),
        user_folder=user_folder(),
        cache_dir=cache_folder(),
    )
    current = open_bundle(ref, user_folder=user_folder(), cache_dir=cache_folder()).for_app(given["app_version"])
    return Judged(examine(trial, current, _planning), built_in.digest, data)


def keep(job: Judged, verdict: ActivationVerdict) -> None:
    """Write the template, then the record that names it; a refusal leaves a row in the record alone.

    Raises PlannerFault file_not_readable; the record then is as it was.
    """
    from planner.bundles.activated import template_name

    evidence, template = job.evidence, job.evidence.template
    folder = user_folder() / evidence.bundle_id
    state = _state(folder, evidence.bundle_id, job.base_digest)
    findings = tuple(" ".join((one.code, *one.ids)) for one in verdict.findings)
    row = AuditRow(_now(), "activate" if verdict.passes else "refuse", evidence.found_sha256, template.version,
                   evidence.app_version, findings)  # fmt: skip
    if not verdict.passes:
        _write_state(folder, noted(state, row))
        return
    assert job.data is not None, "a template that passed has bytes"
    path = folder / template_name(template.sha256)
    _make(path.parent)
    write_output(str(path), job.data)
    _write_state(folder, activated(state, template, row))


def roll_back(ref: str) -> TemplateState:
    """Go one step back and return the new state. Raises PlannerFault no_step_back, and what reading raises."""
    from planner.bundles.activated import read_state

    folder = user_folder() / ref
    state = read_state(folder) if _ID.fullmatch(ref) else None
    if state is None or not state.can_step_back:
        raise PlannerFault("no_step_back", "no template of this bundle can be taken back")
    active = state.active
    row = AuditRow(_now(), "rollback", None if active is None else active.sha256,
                   None if active is None else active.version)  # fmt: skip
    back = stepped_back(state, row)
    _write_state(folder, back)
    return back


def _version(given: dict[str, Any], entry: str) -> TemplateVersion:
    if not _SHA256.fullmatch(given["sha256"]):
        raise usage("--sha256 takes 64 lower-case hex digits")
    for option in ("version", "entry", "app_version", "min_app", "max_app"):
        if given[option] is not None and not is_version(given[option]):
            raise usage(f"--{option.replace('_', '-')} is no version label")
    return TemplateVersion(
        given["sha256"], "", given["entry"] or entry, given["version"], given["min_app"], given["max_app"]
    )


def _fetched(name: str) -> bytes | None:
    """Return the template's bytes, None where they are not at hand: the record then says that fetching failed."""
    from planner.bundles.files import MAX_TEMPLATE_BYTES

    try:
        return read_input(name, MAX_TEMPLATE_BYTES)
    except PlannerFault:
        return None


def _planning(bundle: Bundle | str) -> Planning:
    from planner.bundles.restated import measurable
    from planner.cli.asking import open_named
    from planner.planner import Planner

    # What a template costs can be counted also where the runtime will be given text.
    opened = open_named(bundle) if isinstance(bundle, str) else bundle
    return Planner(measurable(opened), user_folder=user_folder(), cache_folder=cache_folder()).plan


def _pairs(samples: tuple[str, ...], published: tuple[str, ...]) -> tuple[Sample, ...]:
    from planner.activation import Sample

    before = dict(_requests("--published", published))
    after = _requests("--samples", samples)
    unknown = before.keys() - dict(after).keys()
    if unknown:
        raise usage(f"--published holds {len(unknown)} samples that --samples does not")
    return tuple(Sample(name, before.get(name, request), request) for name, request in after)


def _requests(option: str, names: tuple[str, ...]) -> list[tuple[str, PlanRequest]]:
    """Read requests and folders of samples; a request is named by its file. Raises what reading raises."""
    from planner.gate.reading import read_samples

    found: list[tuple[str, PlanRequest]] = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            inside = [(sample.id, sample.request) for sample in read_samples(path)]
            if not inside:
                raise usage(f"{option} names a folder without samples in the folders of their families")
            found += inside
        else:
            stem = path.name.removesuffix(".json").removesuffix(".request")
            found.append((stem if is_id(stem) else f"sample-{len(found) + 1}", read_request(name)))
    if len(dict(found)) != len(found):
        raise usage(f"{option} names a sample twice")
    return found


def _state(folder: Path, bundle_id: str, base_digest: str) -> TemplateState:
    """Return the record to go on from: a new one where there is none, it is damaged, or the bundle changed."""
    from planner.bundles.activated import read_state

    try:
        state = read_state(folder)
    except PlannerFault:
        state = None
    if state is None or state.model_bundle_id != bundle_id:
        return TemplateState(bundle_id, base_digest)
    if state.base_digest != base_digest:
        return replace(state, base_digest=base_digest, active=None, previous=None, can_step_back=False)
    return state


def _write_state(folder: Path, state: TemplateState) -> None:
    from planner.bundles.activated import STATE_FILE, dump_state

    _make(folder)
    write_output(str(folder / STATE_FILE), dump_state(state))


def _make(folder: Path) -> None:
    problem: OSError | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = error
    if problem is not None:
        raise not_readable(folder, problem)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
