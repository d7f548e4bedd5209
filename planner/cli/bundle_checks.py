"""The rows of `planner bundle check`: the full self-test, then one small chat planned as a user would."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.values.reasons import PlannerFault

if TYPE_CHECKING:
    from planner.bundles.bundle import FolderBundle
    from planner.bundles.selftest import SelfTestCheck
    from planner.runtimes.parity import ParitySource

INERT = "plain words"


@dataclass(frozen=True, slots=True)
class Check:
    """One row: `result` is passed, note, skipped or failed; `code` names the fault of a failed one."""

    name: str
    result: str
    detail: str = ""
    code: str = ""


def check_bundle(bundle: FolderBundle, ref: str) -> list[Check]:
    """Run every check that the bundle's parts allow; a fault ends the list as its last, failed row."""
    from planner.bundles.recheck import verify_files
    from planner.bundles.selftest import selftest
    from planner.cli.files import user_folder

    found: list[Check] = []
    try:
        verify_files(ref, user_folder())
        count = len(bundle.manifest.files)
        found.append(Check("files agree with the manifest", "passed", "1 file" if count == 1 else f"{count} files"))
        found.append(Check("tokenizer loads", "passed", f"{bundle.engine.vocab_size:,} entries"))
        tested = selftest(bundle, full=True)
        failed = {check.name for check in tested.failed}
        found += [_row(check, check.name in failed) for check in tested.checks]
        if not failed:
            found += _planned(bundle)
    except PlannerFault as fault:
        found.append(Check("usable", "failed", fault.detail, fault.code))
    return found


def check_sources(ref: str) -> list[Check]:
    """Compare a bundle that was added with what it was added from; nothing for any other."""
    from planner.bundles.recheck import recheck
    from planner.cli.files import user_folder

    return [Check(one.name, one.result, one.detail, one.code) for one in recheck(ref, user_folder())]


def ask_runtime(bundle: FolderBundle, source: ParitySource, app_version: str | None = None) -> Check:
    """Compare what a running server reads of small conversations with our plans."""
    from functools import partial

    from planner.bundles.records import Records
    from planner.certify import remeasure
    from planner.cli.files import user_folder
    from planner.planner import Planner

    planner = Planner(bundle)  # without the user's folder: what blocks the bundle may not block its measuring
    records = Records(user_folder(), bundle.manifest.digest)
    try:
        asking = partial(planner.plan, app_version=app_version)
        agreed = remeasure(asking, planner.encoder(app_version=app_version), source, records)
    except PlannerFault as fault:
        return Check("the runtime reads what is planned", "failed", fault.detail, fault.code)
    return Check("the runtime reads what is planned", "passed", f"{agreed} conversations")


def drift_note(bundle: FolderBundle) -> list[Check]:
    """Say that a differing runtime count blocks the bundle; nothing where none does."""
    from planner.bundles.records import Records, check_drift
    from planner.cli.files import user_folder

    try:
        check_drift(Records(user_folder(), bundle.manifest.digest))
    except PlannerFault as fault:
        return [Check("blocked by drift", "note", f"{fault.detail}; --remeasure lifts it", fault.code)]
    return []


def lift_drift(bundle: FolderBundle) -> list[Check]:
    """Lift what a differing runtime count blocked, after every check passed (X60). Raises file_not_readable."""
    from planner.bundles.records import Records
    from planner.cli.files import user_folder

    lifted = Records(user_folder(), bundle.manifest.digest).lift()
    return [Check("blocked by drift", "passed", "lifted; its record is kept" if lifted else "it was not")]


def _row(check: SelfTestCheck, failed: bool) -> Check:
    if failed:
        return Check(check.name, "failed", check.detail, check.code)
    # What did not pass and is not required says what a plan will cost or refuse.
    return Check(check.name, "passed" if check.passed else "note", check.detail or f"{check.count:,} tried")


def _planned(bundle: FolderBundle) -> list[Check]:
    """Plan one chat with control strings and with plain words: the control ids must be the same."""
    from planner.bundles.restated import Restated
    from planner.planner import Planner
    from planner.values.plan import Plan

    try:
        profile = bundle.profile
    except PlannerFault as fault:
        if fault.code != "bundle_has_no_template":
            raise
        return [Check("template", "skipped", "the folder holds none; it can only count")]
    parsed = {one for entry in profile.parsed_strings for one in (entry.opener, entry.closer)}
    spelled = [token.text for token in bundle.manifest.control_tokens if token.text not in parsed]
    controls = {token.id for token in bundle.manifest.control_tokens}
    seen: list[Counter[int]] = []
    for content in (INERT, f"{INERT} {' '.join(spelled)} {INERT}"):
        answer = Planner(Restated(bundle, runtime=None, app_versions=(None, None))).plan(
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
        return [Check("a planned chat forges no control id", "failed", detail, "control_token_forged")]
    return [
        Check("a small chat can be planned", "passed", "the account adds up"),
        Check("a planned chat forges no control id", "passed", f"{len(spelled)} control strings in content"),
    ]
