"""What a runtime reports: five meanings, 300 turns each, over HTTP; drift blocks a bundle until measured again."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from planner.bundles.digest import bundle_digest
from planner.bundles.records import FOLDER, Records
from planner.gate.receipts import check_receipts
from planner.ledger.ledger import Ledger
from planner.planner import Planner
from planner.steps.learn import learned_meaning
from planner.values.candidate import Candidate
from planner.values.observation import Learned, ProbeCall, Reported
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.request import CurrentRequest, PlanRequest
from planner.values.runtime import MEANINGS, Meaning, Runtime, ValidWhen
from planner.values.runtime_rows import RUNTIMES
from planner.values.turn import Message
from planner.wire.dump import dump_observation, dump_receipt
from tests.peers.support import chat, loop_turn
from tests.support.reporting import ReportingServer
from tests.support.toy import ToyBundle

TURNS = 300
KNOWN = [one for one in MEANINGS if one != "unknown"]


def bundle_of(meaning: Meaning, overhead: int = 0, when: ValidWhen = "always") -> ToyBundle:
    """Return a bundle whose runtime reports in this meaning."""
    profile = replace(RUNTIMES["onnx-genai"], reported_meaning=meaning, reported_when=when)
    runtime = Runtime(profile, profile.versions[0], overhead_tokens=overhead)
    bundle = ToyBundle(runtime=runtime, context_tokens=60_000, longest_token_bytes=None)
    bundle.manifest = replace(bundle.manifest, digest=bundle_digest(bundle.manifest))
    return bundle


@cache
def plans(meaning: Meaning, overhead: int = 0) -> tuple[Planner, tuple[Plan, ...]]:
    """Return a planner and the plans of a conversation in which turns come, are edited and are left out."""
    planner = Planner(bundle_of(meaning, overhead))
    rng = random.Random(7)
    made: list[Plan] = []
    turns = [loop_turn(at, at % 2, rng.choice(("sea ", "ab "))) for at in range(1, 9)]
    for number in range(TURNS):
        some = turns[: rng.randint(0, 4)] if rng.random() < 0.7 else rng.sample(turns, 2)
        some = sorted(some, key=lambda turn: turn.sequence)
        answer = planner.plan(chat(*some, request=CurrentRequest(id="q", text=f"and {number % 5}?")))
        assert isinstance(answer, Plan)
        made.append(answer)
    return planner, tuple(made)


@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize("overhead", [0, 3])
def test_300_turns_in_each_meaning_have_no_false_drift(meaning: Meaning, overhead: int) -> None:
    """A healthy runtime is exact in every meaning that is known, and not comparable in the one that is not."""
    planner, made = plans(meaning, overhead)
    rng = random.Random(11)
    with ReportingServer(meaning) as server:
        server.adds = overhead
        seen = [
            planner.observe(one, server.ask(one.ids, output=rng.randint(0, 40), think=rng.randint(0, 90)))
            for one in made
        ]
    assert {"not_comparable" if meaning == "unknown" else "exact"} == {one.verdict for one in seen}
    assert TURNS == len(seen)
    if meaning != "unknown":
        assert [len(one.ids) + overhead for one in made] == [one.prompt_tokens for one in seen]


@pytest.mark.parametrize("meaning", KNOWN)
def test_every_planted_loss_of_a_token_or_more_is_found(meaning: Meaning) -> None:
    """Wherever the runtime dropped tokens the verdict says so, and nowhere else."""
    planner, made = plans(meaning)
    rng = random.Random(13)
    losses = [rng.choice((0, 0, 1, 1, 2, 17)) for _ in made]
    with ReportingServer(meaning) as server:
        seen = [
            planner.observe(one, server.ask(one.ids, output=rng.randint(0, 40), think=rng.randint(0, 90), lose=lose))
            for one, lose in zip(made, losses, strict=True)
        ]
    expected = ["runtime_truncated" if lose else "exact" for lose in losses]
    assert expected == [one.verdict for one in seen]
    assert expected.count("runtime_truncated") > 100
    for one, lose, plan in zip(seen, losses, made, strict=True):
        assert len(plan.ids) - lose == one.prompt_tokens
        assert ("runtime_mismatch" if lose else None) == one.reason


def reported_by(server: ReportingServer, seed: int) -> Learned:
    """Learn what a server's count means by the three calls."""
    rng = random.Random(seed)
    planner = Planner(bundle_of("unknown"))
    return planner.learn_meaning(
        lambda plan: server.ask(plan.ids, output=rng.randint(0, 30), think=rng.choice((0, rng.randint(1, 60))))
    )


@pytest.mark.parametrize("meaning", MEANINGS)
def test_three_calls_name_the_meaning_or_say_unknown(meaning: Meaning) -> None:
    """Over sessions that are told apart by their figures, the meaning is always named; otherwise it is unknown."""
    for seed in range(25):
        rng = random.Random(seed)
        with ReportingServer(meaning, tells=rng.random() < 0.6, thinks=rng.random() < 0.6) as server:
            found = reported_by(server, seed)
        assert found.meaning in (meaning, "unknown")
        said = [one.reported for one in found.calls]
        assert 3 == len(said)
        told = any(one.output_tokens for one in said) and any(one.reasoning_tokens for one in said)
        if told and any(one.cached_tokens for one in said):
            assert meaning == found.meaning


@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize("tells", [False, True])
def test_a_server_without_a_cache_is_never_named_by_accident(meaning: Meaning, tells: bool) -> None:
    """Where nothing was cached, the whole prompt and what was processed now are one number: neither is named."""
    with ReportingServer(meaning, caches=False, tells=tells) as server:
        found = reported_by(server, 5)
    assert found.meaning in ((meaning, "unknown") if "session" in meaning else ("unknown",))


def test_a_meaning_needs_three_calls_that_agree() -> None:
    """Two calls, or three of which one counts otherwise, tell nothing."""
    calls = [ProbeCall(50, shared, Reported(50, cached_tokens=shared, output_tokens=4)) for shared in (0, 49, 40)]
    assert "whole_prompt" == learned_meaning(calls)
    assert "unknown" == learned_meaning(calls[:2])
    assert "unknown" == learned_meaning([*calls[:2], replace(calls[2], planned_tokens=51)])


@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize("tells", [False, True])
def test_a_session_that_holds_the_frame_already_tells_as_much(meaning: Meaning, tells: bool) -> None:
    """A chat ran before the first call: the answer is that of a session that was empty, and its frame was cached."""
    planner = Planner(bundle_of("unknown"))
    found = {}
    for before in (False, True):
        with ReportingServer(meaning, tells=tells) as server:
            if before:
                earlier = planner.plan(messages=[{"role": "user", "content": "hello"}])
                assert isinstance(earlier, Plan)
                server.ask(earlier.ids, output=3)
            found[before] = planner.learn_meaning(lambda plan: server.ask(plan.ids, output=7, think=5))
    assert found[False].meaning == found[True].meaning
    if meaning == "prefilled_now":
        assert meaning == found[True].meaning
        first, frame = (found[before].calls[0] for before in (False, True))
        assert frame.frame_tokens == first.reported.tokens - frame.reported.tokens > 0
    _, again, goes_on = found[True].calls
    assert (0, 0) == (again.frame_tokens, goes_on.frame_tokens), "of these calls every token is known"
    assert again.planned_tokens == again.shared_tokens < goes_on.planned_tokens


def test_what_the_first_call_may_lack_is_the_frame_and_no_token_more() -> None:
    """A count that lacks more, or more than was planned, counts something else; the later calls allow nothing."""
    again, goes_on = ProbeCall(50, 50, Reported(1)), ProbeCall(70, 50, Reported(20))
    for tokens in range(60):
        found = learned_meaning([ProbeCall(50, 0, Reported(tokens), frame_tokens=6), again, goes_on])
        assert ("prefilled_now" if 44 <= tokens <= 50 else "unknown") == found
    first = ProbeCall(50, 0, Reported(47), frame_tokens=6)
    assert "unknown" == learned_meaning([first, again, ProbeCall(70, 50, Reported(19))])
    assert "unknown" == learned_meaning([first, ProbeCall(50, 50, Reported(2)), goes_on])


def test_a_learned_meaning_is_kept_with_its_evidence_and_used(tmp_path: Path) -> None:
    """A later process reads what three calls showed; a manifest that states a meaning is not overruled."""
    bundle = bundle_of("unknown")
    planner = Planner(bundle, user_folder=tmp_path)
    with ReportingServer("session_with_reasoning") as server:
        found = planner.learn_meaning(lambda plan: server.ask(plan.ids, output=5, think=9))
        plan = planner.plan(chat())
        assert isinstance(plan, Plan)
        assert "exact" == Planner(bundle, user_folder=tmp_path).observe(plan, server.ask(plan.ids, output=1)).verdict
    kept = Records(tmp_path, bundle.manifest.digest).read("meaning")
    assert kept is not None
    assert ("session_with_reasoning", 3) == (kept["meaning"], len(kept["calls"]))
    assert [one.reported.tokens for one in found.calls] == [one["reported"]["tokens"] for one in kept["calls"]]
    assert "not_comparable" == Planner(bundle).observe(plan, Reported(5)).verdict


def test_drift_blocks_the_bundle_until_it_is_measured_again(tmp_path: Path) -> None:
    """The planner that saw it, its conversations, and every later planner refuse; lifting keeps the record (X60)."""
    bundle = bundle_of("whole_prompt")
    planner = Planner(bundle, user_folder=tmp_path)
    conversation = planner.conversation()
    plan = planner.plan(chat())
    assert isinstance(plan, Plan)
    assert "exact" == planner.observe(plan, len(plan.ids)).verdict
    assert "drift" == planner.observe(plan, len(plan.ids) + 1).verdict
    blocked = "bundle_blocked_by_drift: its runtime counted otherwise: "
    for call in (lambda: planner.plan(chat()), lambda: Planner(bundle, user_folder=tmp_path),
                 lambda: conversation.plan(chat()), planner.conversation):  # fmt: skip
        with pytest.raises(PlannerFault, match=blocked):
            call()
    assert "exact" == planner.observe(plan, len(plan.ids)).verdict, "what ran before may still be reported"
    other = ToyBundle()
    assert Planner(other, user_folder=tmp_path).plan(chat()).accepted, "another bundle is not blocked"
    records = Records(tmp_path, bundle.manifest.digest)
    assert records.lift()
    assert not records.lift()
    assert Planner(bundle, user_folder=tmp_path).plan(chat()).accepted
    kept = records.read("drift-lifted")
    assert kept is not None
    assert (len(plan.ids), len(plan.ids) + 1) == (kept["plannedTokens"], kept["reportedTokens"])


def test_threads_that_see_a_drift_at_once_all_keep_it(tmp_path: Path) -> None:
    """A record is written whole by each of them; none finds its own half taken away by another."""
    records = Records(tmp_path, "0" * 64)

    def write(number: int) -> None:
        for _ in range(60):
            records.write("drift", {"plannedTokens": number, "reportedTokens": 2, "filler": "x" * 2_000})

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(write, number) for number in range(6)]:
            done.result()
    assert records.read("drift") is not None
    assert ["drift.json"] == [path.name for path in (tmp_path / FOLDER / ("0" * 40)).iterdir()]


@pytest.mark.parametrize("digest", ["../../out", "/out", "..", "", "a" * 63 + "/", "\ud800"])
def test_a_stated_digest_is_never_a_path(tmp_path: Path, digest: str) -> None:
    """A receipt that was written down may state anything: its record stays inside the folder of records."""
    own = tmp_path / "a" / "b" / "own"
    records = Records(own, digest)
    records.write("drift", {"plannedTokens": 1, "reportedTokens": 2})
    assert [own / FOLDER] == [path.parents[1] for path in tmp_path.rglob("drift.json")]
    assert records.read("drift") is not None


def test_a_record_that_cannot_be_read_blocks(tmp_path: Path) -> None:
    """Damage is never taken for leave; a record of another bundle neither."""
    bundle = bundle_of("whole_prompt")
    Records(tmp_path, bundle.manifest.digest).write("drift", {"plannedTokens": 1, "reportedTokens": 2})
    path = next((tmp_path / FOLDER).glob("*/drift.json"))
    for data in (b"", b"{", b"[]", b'{"bundleDigest": "x"}', path.read_bytes().replace(b'"', b"'")):
        path.write_bytes(data)
        with pytest.raises(PlannerFault, match="record_damaged"):
            Planner(bundle, user_folder=tmp_path)
    assert Records(tmp_path, bundle.manifest.digest).lift()
    assert Planner(bundle, user_folder=tmp_path).plan(chat()).accepted


def test_a_simulated_count_blocks_nothing_and_says_so() -> None:
    """R210: it is labelled, whatever it comes to."""
    planner = Planner(bundle_of("whole_prompt"))
    plan = planner.plan(chat())
    assert isinstance(plan, Plan)
    seen = planner.observe(plan, Reported(1, simulated=True))
    assert ("runtime_truncated", "simulated") == (seen.verdict, seen.evidence)
    assert planner.plan(chat()).accepted


def test_a_meaning_that_lacks_its_figures_is_not_comparable_unless_it_is_out_of_bounds() -> None:
    """More processed than the prompt has, or a session that holds less than the prompt, is a difference anyway."""
    for meaning, tokens, verdict in (
        ("prefilled_now", 0, "not_comparable"), ("prefilled_now", 1, "drift"),
        ("session_with_output", 0, "not_comparable"), ("session_with_output", -1, "runtime_truncated"),
        ("session_with_reasoning", -1, "runtime_truncated"), ("unknown", 5, "not_comparable"),
    ):  # fmt: skip
        planner = Planner(bundle_of(meaning))  # type: ignore[arg-type]
        plan = planner.plan(chat())
        assert isinstance(plan, Plan)
        seen = planner.observe(plan, len(plan.ids) + tokens)
        assert (meaning, verdict) == (seen.meaning, seen.verdict)
        assert bool(seen.cause) == (verdict == "not_comparable")


def test_a_count_of_another_moment_is_not_comparable() -> None:
    """A session count that is valid before thoughts are taken back says nothing afterwards."""
    planner = Planner(bundle_of("session_with_reasoning", when="before_rollback"))
    plan = planner.plan(chat())
    assert isinstance(plan, Plan)
    full = Reported(len(plan.ids) + 12, output_tokens=4, reasoning_tokens=8)
    verdicts = [planner.observe(plan, replace(full, moment=one)).verdict
                for one in ("before_rollback", "after_rollback", None)]  # fmt: skip
    assert ["exact", "not_comparable", "not_comparable"] == verdicts


def test_declared_overhead_is_part_of_what_is_expected() -> None:
    """What the bundle declares must be added: without it the count differs, though no token of the plan was lost."""
    planner = Planner(bundle_of("whole_prompt", overhead=3))
    plan = planner.plan(chat())
    assert isinstance(plan, Plan)
    sent = len(plan.ids)
    verdicts = {added: planner.observe(plan, sent + added).verdict for added in (-1, 0, 2, 3, 4)}
    assert {-1: "runtime_truncated", 0: "drift", 2: "drift", 3: "exact", 4: "drift"} == verdicts


def test_a_bound_is_only_ever_exceeded() -> None:
    """A plan that is an upper bound says nothing about a smaller count, and everything about a larger one."""
    planner = Planner(bundle_of("whole_prompt"))
    plan = planner.plan(chat())
    assert isinstance(plan, Plan)
    receipt = replace(plan.receipt, count_source="upper_bound")
    assert ["not_comparable", "exact", "drift"] == [
        planner.observe(receipt, len(plan.ids) + more).verdict for more in (-5, 0, 1)
    ]


@pytest.mark.parametrize("figure", [-1, True, 1.5, None, "7", 1 << 60])
def test_what_is_no_count_is_refused(figure: object) -> None:
    """A report that holds no whole number of tokens proves nothing."""
    planner = Planner(bundle_of("whole_prompt"))
    plan = planner.plan(chat())
    assert isinstance(plan, Plan)
    with pytest.raises(RefusalSignal) as caught:
        planner.observe(plan, Reported(figure))  # type: ignore[arg-type]
    assert ("invalid-input", "$.reported.tokens: expected a whole number") == (caught.value.reason, caught.value.detail)


def test_the_receipt_of_a_refusal_or_of_another_bundle_is_no_plan() -> None:
    """R42: a count is compared with a plan of this very bundle or with none."""
    planner, other = Planner(bundle_of("whole_prompt")), Planner(bundle_of("whole_prompt", overhead=1))
    refused = planner.plan(chat(max_input_tokens=2))
    assert isinstance(refused, Refusal)
    with pytest.raises(RefusalSignal, match="invalid-input"):
        planner.observe(refused.receipt, 5)
    plan = other.plan(chat())
    assert isinstance(plan, Plan)
    with pytest.raises(PlannerFault, match="bundle_mismatch: the receipt is of another bundle"):
        planner.observe(plan, len(plan.ids))


def test_a_ledger_keeps_the_observation_beside_the_receipt(tmp_path: Path) -> None:
    """Both numbers and the verdict, text-free; the same report again is no second one."""
    planner = Planner(bundle_of("whole_prompt"))
    with Ledger.open(tmp_path / "chats") as ledger:
        ledger.append("c1", "t1", [Message("user", "m1", "canary-51")])
        plan = planner.ledger_conversation(ledger, "c1").plan(PlanRequest("toy-plain-char"))
        assert isinstance(plan, Plan)
        for _ in range(2):
            planner.observe(plan, len(plan.ids), ledger=ledger)
        kept = ledger.part("c1", "observation", plan.receipt.plan_id)
        assert kept is not None
        tree = json.loads(kept)
        assert ("exact", len(plan.ids), len(plan.ids)) == (
            tree["verdict"], tree["plannedTokens"], tree["reportedTokens"])  # fmt: skip
        assert b"canary" not in kept
        with pytest.raises(PlannerFault, match="duplicate_id"):
            planner.observe(plan, len(plan.ids) - 1, ledger=ledger)
    with pytest.raises(PlannerFault, match="bundle_blocked_by_drift"):
        planner.plan(chat())


def test_T13_fewer_reported_than_planned_is_a_mismatch(tmp_path: Path) -> None:
    """Ollama #3839, #14259: the front was dropped with 200 OK. The observation says so; the gate takes it not."""
    bundle = bundle_of("whole_prompt")
    planner = Planner(bundle, user_folder=tmp_path / "user")
    candidate = Candidate("1.0", (bundle.manifest.digest,), "1", "0", "1.0", "0", "0")
    plan = planner.plan(chat(candidate_id=candidate.candidate_id, app_version=candidate.app_version))
    assert isinstance(plan, Plan)
    (tmp_path / "receipts").mkdir()
    judged = {}
    for lost in (0, 1, len(plan.ids) // 2):
        seen = planner.observe(plan, len(plan.ids) - lost)
        pair = {"receipt": json.loads(dump_receipt(plan.receipt)), "observation": json.loads(dump_observation(seen))}
        (tmp_path / "receipts" / "one.json").write_text(json.dumps(pair), encoding="utf-8")
        _, reasons = check_receipts(tmp_path / "receipts", candidate)
        judged[lost] = (seen.verdict, seen.reason, [one.code for one in reasons])
    mismatch = ("runtime_truncated", "runtime_mismatch", ["runtime_count_differs"])
    assert [("exact", None, []), mismatch, mismatch] == list(judged.values())
    with pytest.raises(PlannerFault, match="bundle_blocked_by_drift"):
        Planner(bundle, user_folder=tmp_path / "user")


def test_every_meaning_has_its_line_in_the_page() -> None:
    """What a count may mean is what the reader finds."""
    page = (Path(__file__).resolve().parents[2] / "docs/bundles.md").read_text("utf-8")
    assert set(get_args(Meaning)) == set(MEANINGS)
    assert [] == [one for one in MEANINGS if f"| `{one}` |" not in page]
