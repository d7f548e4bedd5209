"""A first candidate and one small sample of each family for a user's app: `planner gate init` (R191)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from planner.values.candidate import Candidate
from planner.values.check_summary import run_of
from planner.values.compaction import STRATEGY_VERSION
from planner.values.digest import canonical, digest
from planner.values.gate import Event, Expectation, Sample
from planner.values.passage import Claims, Passage, Source
from planner.values.request import CurrentRequest, PlanRequest, TextItem
from planner.values.strict_json import load_strict
from planner.values.summary import SummaryRecord, SummaryState
from planner.values.turn import Message, Turn
from planner.wire.dump import dump_record

_CLAIMS = Claims("house", ("handbook",), ("desk",))
_KEPT = ("policy/p1",)
README = """# Samples of the release gate

One folder per family, one file per sample. Replace the words by those of your app and add samples:
what a release must never lose belongs here. Run them with

    planner gate run --candidate candidate.json --samples samples --bundles {bundles}

or from your own test suite with

    pytest --planner-samples samples --planner-candidate candidate.json --planner-bundles {bundles}

`expect` says what must come out, whatever bundle answers. `boundary` finds a limit per bundle: `exact` is what
everything needs to the token, `one_over` one token less, `half` half of it.

`candidate.json` holds what a release consists of. Make it anew whenever any of it changes:

    planner gate candidate --app-version {app_version} --bundles {bundles} --tools tools.json --policy policy.json
"""


def candidate_of(app_version: str, bundle_digests: tuple[str, ...], parts: Mapping[str, Any]) -> Candidate:
    """Return a candidate.

    parts  `tools`, `policy` and `hardening` as bytes of what the app ships, None where it ships none;
           `template_version` and `summary_schema_version` as text.
    """
    return Candidate(
        app_version=app_version,
        bundle_digests=tuple(sorted(set(bundle_digests))),
        template_version=parts["template_version"],
        tool_set_digest=part_digest(parts["tools"]),
        summary_schema_version=parts["summary_schema_version"],
        hardening_digest=part_digest(parts["hardening"]),
        policy_digest=part_digest(parts["policy"]),
    )


def part_digest(data: bytes | None) -> str:
    """Return the digest of what an app ships: sha256 of the canonical JSON, so that spaces do not matter.

    None is no part, whose digest is that of the word `none`. Raises RefusalSignal invalid-input for what is no JSON.
    """
    return digest(b"none" if data is None else canonical(load_strict(data)))


def readable(value: Any) -> bytes:
    """Return a record as JSON that a person edits."""
    return (json.dumps(json.loads(dump_record(value)), ensure_ascii=False, indent=1) + "\n").encode()


def scaffold(candidate: Candidate, bundles: str) -> Iterator[tuple[str, bytes]]:
    """Give every file of a new folder with its name."""
    yield "README.md", README.format(bundles=bundles, app_version=candidate.app_version).encode()
    yield "candidate.json", readable(candidate)
    for sample in samples():
        yield f"samples/{sample.family}/{sample.id}.json", readable(sample)


def samples() -> Iterator[Sample]:
    """Give one sample of each family, small enough for every bundle."""
    turns = _turns(12)
    yield Sample("half-fits", "over_budget", _asked(turns), Expectation(kept=_KEPT, reduced=True), "half")
    cut = Expectation(kept=(*_KEPT, "turn/t12"), absent=("turn/t1",), reduced=True)
    yield Sample("newest-stay", "turn_truncation", _asked(turns), cut, "half")
    stale = _summary(turns[:8], policy_version="v0")
    yield Sample(
        "policy-changed", "old_summary", _asked(turns, summaries=(stale,)),
        Expectation(kept=_KEPT, absent=("summary/s1",)), "half",
    )  # fmt: skip
    yield Sample(
        "other-tenant", "permission_withdrawn",
        _asked(turns[:4], passages=(_passage("p1"), _passage("p2", tenant="other")), max_input_tokens=2000),
        Expectation(kept=(*_KEPT, "passage/p1"), absent=("passage/p2",)),
    )  # fmt: skip
    told = (
        _passage("p1", fact_key="hotline", fact_value="4711"),
        _passage("p2", text="The hotline is 4712.", fact_key="hotline", fact_value="4712"),
    )
    yield Sample(
        "both-shown", "retrieval_conflict", _asked(turns[:4], passages=told, max_input_tokens=2000),
        Expectation(kept=(*_KEPT, "passage/p1", "passage/p2")),
    )  # fmt: skip
    script = ("plan", "kill", "plan", "rotate", "background", "restore", "plan")
    yield Sample(
        "kill-and-rotate", "lifecycle", _asked(turns[:6], max_input_tokens=2000),
        Expectation(kept=(*_KEPT, "turn/t6")), events=tuple(Event(kind) for kind in script),
    )  # fmt: skip


def _turns(count: int) -> tuple[Turn, ...]:
    return tuple(
        Turn(
            f"t{number}", number * 10, "completed",
            (
                Message("user", f"u{number}", f"What is on floor {number}?", sequence=number * 10),
                Message("assistant", f"a{number}", f"Room {number}01 to {number}09.", sequence=number * 10 + 1),
            ),
        )
        for number in range(1, count + 1)
    )  # fmt: skip


def _asked(turns: tuple[Turn, ...], **fields: Any) -> PlanRequest:
    return PlanRequest(**{
        "model_bundle_id": "any", "conversation_id": "c1", "policy_version": "v1",
        "policy": (TextItem("p1", "Name no tenant."),), "request": CurrentRequest("q", text="And the roof?"),
        "turns": turns, "reserved_output_tokens": 64, "now": "2026-11-30T09:00:00Z", "claims": _CLAIMS, **fields,
    })  # fmt: skip


def _passage(name: str, text: str = "The hotline is 4711.", **fields: Any) -> Passage:
    return Passage(**{
        "citation_id": name, "text": text, "relevance": 0.8, "tenant": "house", "dataset": "handbook",
        "source": Source("desk", 1), **fields,
    })  # fmt: skip


def _summary(covered: tuple[Turn, ...], **fields: Any) -> SummaryRecord:
    run = run_of(covered, ())
    return SummaryRecord(**{
        "id": "s1", "plan_id": "p1", "conversation_id": "c1", "source_generation": 1, "source_revision": 0,
        "source_ids": run.source_ids, "source_versions": run.source_versions,
        "source_fingerprint": run.source_fingerprint, "protected_fingerprint": run.protected_fingerprint,
        "covers_from": run.covers_from, "covers_to": run.covers_to, "through_sequence": run.through_sequence,
        "summary_version": 1, "policy_version": "v1", "strategy_version": STRATEGY_VERSION,
        "summary_text": "Floors were asked for.", "state": SummaryState(goal="Know the house."), **fields,
    })  # fmt: skip
