"""What a device's own count says of the tokenizer and the wrapping there (R41, R208, X60)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from planner.bundles.digest import bundle_digest
from planner.gate.receipts import check_receipts
from planner.planner import Planner
from planner.values.candidate import Candidate
from planner.values.observation import Reported
from planner.values.plan import Plan
from planner.values.runtime import Runtime
from planner.values.runtime_rows import RUNTIMES
from planner.wire.dump import dump_receipt, dump_record
from tests.gate.gate_support import asked, candidate
from tests.support.toy import ToyBundle


def bundle(overhead: int = 0) -> ToyBundle:
    """Return a bundle whose runtime reports the whole prompt and adds `overhead` tokens of its own."""
    profile = replace(RUNTIMES["onnx-genai"], reported_meaning="whole_prompt", reported_when="always")
    found = ToyBundle(
        runtime=Runtime(profile, profile.versions[0], overhead_tokens=overhead), context_tokens=60_000,
        longest_token_bytes=None,
    )  # fmt: skip
    found.manifest = replace(found.manifest, digest=bundle_digest(found.manifest))
    return found


def run_on_device(folder: Path, overhead: int, added: int, *, simulated: bool = False) -> list[str]:
    """Plan, let a device report so many tokens more, and hand its receipt to the gate; return the codes."""
    one = Planner(bundle(overhead))
    made: Candidate = candidate(bundle_digests=(one.encoder().bundle.manifest.digest,))
    request = replace(asked(), model_bundle_id=one.bundle_id, candidate_id=made.candidate_id, app_version="1.0")
    answer = one.plan(request)
    assert isinstance(answer, Plan), answer
    seen = one.observe(answer, Reported(len(answer.ids) + added, simulated=simulated))
    tree = {"receipt": json.loads(dump_receipt(answer.receipt)), "observation": json.loads(dump_record(seen))}
    folder.mkdir(exist_ok=True)
    (folder / "device.json").write_text(json.dumps(tree))
    sound, wrong = check_receipts(folder, made)
    assert (sound == 1) is (not wrong)
    return [reason.code for reason in wrong]


@pytest.mark.parametrize("added", [-2, -1, 1, 2])
def test_life_on_device_tokenizer(tmp_path: Path, added: int) -> None:
    """A device whose tokenizer makes one token more or fewer of the same prompt blocks; as planned it counts."""
    assert ["runtime_count_differs"] == run_on_device(tmp_path, 0, added)
    assert [] == run_on_device(tmp_path, 0, 0)


def test_life_template_wrapping(tmp_path: Path) -> None:
    """Tokens that a runtime puts around the prompt are declared by the bundle, or they block (R41)."""
    assert ["runtime_count_differs"] == run_on_device(tmp_path, 0, 3)
    assert [] == run_on_device(tmp_path, 3, 3)
    assert ["runtime_count_differs"] == run_on_device(tmp_path, 3, 0)
    assert ["receipt_simulated"] == run_on_device(tmp_path, 3, 3, simulated=True)
