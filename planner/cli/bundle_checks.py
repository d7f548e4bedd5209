"""The rows of `planner bundle check`: each check is a small experiment on the loaded bundle."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.values.reasons import PlannerFault

if TYPE_CHECKING:
    from planner.bundles.bundle import FolderBundle

SAMPLES = (
    "The quick brown fox, 42 of them.",
    "  leading and  double spaces\n\tand a tab",
    "夜班马上开始。Größe 3 µm, naïve café",
    "مرحبا สวัสดี नमस्ते 👩‍👩‍👧‍👦",
    "def f(x):\n    return {'a': x}",
)
INERT = "plain words"


@dataclass(frozen=True, slots=True)
class Check:
    """One row: `result` is passed, note, skipped or failed; `code` names the fault of a failed one."""

    name: str
    result: str
    detail: str = ""
    code: str = ""


def check_bundle(bundle: FolderBundle) -> list[Check]:
    """Run every check that the bundle's parts allow; a fault ends the list as its last, failed row."""
    found: list[Check] = []
    try:
        manifest = bundle.manifest
        found.append(Check("files agree with the manifest", "passed", _files(len(manifest.files))))
        found.append(Check("tokenizer loads", "passed", f"{bundle.engine.vocab_size:,} entries"))
        found.append(_counts(bundle))
        found.append(_round_trip(bundle))
        found.append(_control_strings(bundle))
        found += _template(bundle)
    except PlannerFault as fault:
        found.append(Check("usable", "failed", fault.detail, fault.code))
    return found


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _counts(bundle: FolderBundle) -> Check:
    empty = [number for number, text in enumerate(SAMPLES) if not len(bundle.engine.encode(text).ids)]
    if empty:
        return Check("text has tokens", "failed", f"{len(empty)} samples encode to nothing", "tokenizer_failed")
    return Check("text has tokens", "passed", f"{len(SAMPLES)} samples")


def _round_trip(bundle: FolderBundle) -> Check:
    engine = bundle.engine
    changed = sum(engine.decode(list(engine.encode(text).ids)) != text for text in SAMPLES)
    if changed:
        return Check("text comes back as it was", "note", f"{changed} of {len(SAMPLES)} are rewritten")
    return Check("text comes back as it was", "passed", f"{len(SAMPLES)} samples")


def _control_strings(bundle: FolderBundle) -> Check:
    """A control string in content must not become its id."""
    engine, controls = bundle.engine, bundle.manifest.control_tokens
    forbidden = {token.id for token in controls}
    leaks = sum(
        bool(forbidden.intersection(engine.encode(f"a {token.text} b").ids))
        or bool(forbidden.intersection(engine.encode(token.text).ids))
        for token in controls
    )
    if leaks:
        return Check("control strings stay text", "failed", f"{leaks} become control ids", "tokenizer_failed")
    return Check("control strings stay text", "passed", f"{len(controls)} control tokens")


def _template(bundle: FolderBundle) -> list[Check]:
    try:
        profile = bundle.profile
    except PlannerFault as fault:
        if fault.code != "bundle_has_no_template":
            raise
        return [Check("template", "skipped", "the folder holds none; it can only count")]
    return [
        Check("template was measured", "passed", f"{profile.probe_renders} renders"),
        *_skeleton(bundle),
    ]


def _skeleton(bundle: FolderBundle) -> list[Check]:
    """Plan one small chat with control strings and with plain words: the control ids must be the same."""
    from planner.planner import Planner
    from planner.values.plan import Plan

    planner = Planner(bundle)
    parsed = {one for entry in bundle.profile.parsed_strings for one in (entry.opener, entry.closer)}
    spelled = [token.text for token in bundle.manifest.control_tokens if token.text not in parsed]
    controls = {token.id for token in bundle.manifest.control_tokens}
    seen: list[Counter[int]] = []
    for content in (INERT, f"{INERT} {' '.join(spelled)} {INERT}"):
        answer = planner.plan(
            messages=[
                {"role": "user", "content": content},
                {"role": "assistant", "content": content},
                {"role": "user", "content": content},
            ],
            max_input_tokens=1_000_000,
            reserved_output_tokens=1,
        )
        if not isinstance(answer, Plan):
            return [Check("a small chat can be planned", "failed", answer.detail, answer.reason)]
        if answer.account.input_tokens != len(answer.ids):
            return [Check("the account adds up", "failed", "it does not", "unmeasured_part")]
        seen.append(Counter(one for one in answer.ids if one in controls))
    if seen[0] != seen[1]:
        detail = "control strings in content change the control ids"
        return [Check("content forges no control id", "failed", detail, "control_token_forged")]
    return [
        Check("a small chat can be planned", "passed", "the account adds up"),
        Check("content forges no control id", "passed", f"{len(spelled)} control strings in content"),
    ]
