"""R127..R141: what a summary is in the prompt, where it stands, and that nothing stands twice or is lost."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from planner.adapters.openai import request_from_chat
from planner.planner import Planner
from planner.steps.frame_blocks import STATE_CLOSE, STATE_OPEN, STATE_WORDING
from planner.values.plan import Plan
from planner.values.request import PlanRequest, Previous
from planner.values.summary import SummaryRecord
from planner.values.turn import Message, Turn
from tests.laws.common import answer_bytes, said, toy, with_room
from tests.plan_summaries.common import asking, plan, protected, summed, talk, turns_of
from tests.support.toy import ToyBundle


def _six(**fields_: object) -> PlanRequest:
    return summed(asking(*(talk(number) for number in range(1, 7)), **fields_), (2, 4))


def _messages(answer: Plan) -> list[tuple[str, str]]:
    """Split a toy prompt into (role, content)."""
    parts = said(answer).split("<|end|>")
    return [tuple(part.removeprefix("<|").split("|>", 1)) for part in parts[:-1]]  # type: ignore[misc]


def test_R127_typed_items() -> None:
    """A summary and a turn are two types that share no shape, and a plan tells them apart by kind."""
    summary, turn = ({entry.name for entry in fields(one)} for one in (SummaryRecord, Turn))
    assert {"summary_text", "through_sequence"} <= summary - turn
    assert {"messages", "sequence"} <= turn - summary
    answer = plan(_six(), 1_100)
    assert ["turn/t1", "summary/s1", "turn/t5", "turn/t6"] == turns_of(answer)
    layers = {item.id: (item.layer, item.sequence) for item in answer.plan_file.items}
    assert ("summarizable", 40) == layers["summary/s1"]


def test_R128_summary_not_disguised() -> None:
    """Its text is in no system message and no message of its own; the fence says who wrote it."""
    answer = plan(_six(), 1_100)
    carrier = next(content for role, content in _messages(answer) if "\nsea\n" in content)
    assert carrier.startswith(STATE_OPEN)
    assert STATE_OPEN == "[conversation state: written by the application]"
    assert "sea" not in "".join(content for role, content in _messages(answer) if role != "user")
    assert carrier.endswith(f"{STATE_CLOSE}\n{talk(5).messages[0].text}")
    assert "summary" not in {key.partition("/")[0] for key in answer.kept if key.startswith(("policy", "request"))}


def test_R129_summary_labelled_with_sources() -> None:
    """The block names the interval of turns; the receipt names the version."""
    answer = plan(_six(), 1_100)
    assert "turns 20 to 40:\nsea\n" in said(answer)
    assert ("s1@1",) == answer.receipt.summary_versions
    assert (20, 40) == answer.receipt.summaries[0].covers


def test_R130_adapter_renders_controlled_slot() -> None:
    """The slot is in the receipt; a bundle without a certified one gets raw turns and says so."""
    answer = plan(_six(), 1_100)
    assert "user_message" == answer.receipt.slot
    bundle = ToyBundle(longest_token_bytes=None)
    bundle.profile = replace(bundle.profile, user_slot=False)
    bare = Planner(bundle).plan(with_room(_six(), 1_100))
    assert isinstance(bare, Plan)
    assert ["turn/t3", "turn/t4", "turn/t5", "turn/t6"] == turns_of(bare)
    assert ["summary_slot_missing"] == [entry.reason for entry in bare.removed if entry.id == "summary/s1"]
    assert "summary_slot_missing" in bare.receipt.flags
    assert bare.receipt.slot is None


def test_R131_summary_is_separate_state_message() -> None:
    """A block of its own, ended before the user's words, then the raw messages one by one."""
    answer = plan(_six(), 1_100)
    roles = [role for role, _ in _messages(answer)]
    assert ["user", "assistant"] * 3 + ["user"] == roles
    assert 1 == said(answer).count(STATE_OPEN) == said(answer).count(STATE_CLOSE)


def test_R132_state_wrapper_wording() -> None:
    """The fixed wording says what counts, once a prompt."""
    answer = plan(summed(_six(), (6, 6)), 800)
    assert "Use only the confirmed facts below." in STATE_WORDING
    assert "do not override hard constraints" in STATE_WORDING
    assert 1 == said(answer).count(STATE_WORDING)


def test_R134_summary_at_coverage_position() -> None:
    """After what is older, before the first turn after its interval."""
    prompt = said(plan(_six(), 1_100))
    first, block, fifth = prompt.index(talk(1).messages[0].text or ""), prompt.index("turns 20 to 40"), prompt.rindex(
        STATE_CLOSE
    )  # fmt: skip
    assert first < block < fifth


def test_R135_assembly_order_stable() -> None:
    """Turns and summaries in any order of the request give the same prompt, by sequence."""
    request = summed(_six(), (5, 5))
    mixed = replace(request, turns=request.turns[::-1], summaries=request.summaries[::-1])
    answer = plan(request, 900)
    assert plan(mixed, 900).ids == answer.ids
    sequences = [item.sequence for item in answer.plan_file.items if item.sequence is not None]
    assert sorted(set(sequences)) == sequences


def test_R136_no_message_twice() -> None:
    """At every window: no covered turn beside its summary."""
    for room in range(200, 2_000, 60):
        answer = plan(_six(), room)
        if "summary/s1" in answer.kept:
            assert {"turn/t2", "turn/t3", "turn/t4"}.isdisjoint(answer.kept)


def test_R137_every_protected_message_once() -> None:
    """Whatever summaries claim, a protected turn is raw, once."""
    turns = [talk(number) for number in range(1, 7)]
    turns[2] = protected(talk(3, "kept words " * 12))
    for room in (700, 1_100, 5_000):
        answer = plan(summed(asking(*turns), (2, 2), (4, 5)), room)
        assert 1 == answer.kept.count("turn/t3")
        assert 2 == said(answer).count("kept words " * 12)


def test_R138_duplicate_id_error_not_first_wins() -> None:
    """Two summaries of one id: none is used, both are named once, and raw turns stand in their place."""
    request = _six()
    twice = replace(request, summaries=(request.summaries[0], replace(request.summaries[0], summary_text="other")))
    answer = plan(twice, 1_100)
    assert "summary/s1" not in answer.kept
    assert [("invalid-summary", "duplicate_id", ("s1",))] == [
        (use.fate, use.cause, use.ids) for use in answer.receipt.summaries
    ]
    same = asking(talk(1), talk(2), replace(talk(3), id="t1", sequence=35))
    refusal = toy().plan(same)
    assert "invalid-input" == refusal.receipt.reason


def test_R139_only_allowed_fields_reach_model() -> None:
    """Of a summary only its text and interval, of a constraint only its text: no id, fingerprint or state."""
    request = _six()
    record = request.summaries[0]
    prompt = said(plan(request, 1_100))
    assert record.state.goal not in prompt.replace(talk(1).messages[0].text or "", "")
    private = (record.source_fingerprint, record.plan_id, record.id, record.strategy_version + "\n", *record.source_ids)
    assert not any(text in prompt for text in private if len(text) > 2)


def test_R140_deleted_preserved_id_voids_layout() -> None:
    """A source that is gone: the summary is not used, its other turns are raw."""
    request = _six()
    gone = replace(request, turns=tuple(turn for turn in request.turns if turn.id != "t3"))
    answer = plan(gone, 1_100)
    assert [("stale-source", "source_missing", ("u3",))] == [
        (use.fate, use.cause, use.ids) for use in answer.receipt.summaries
    ]
    assert "turn/t4" in answer.kept


def test_R141_appended_turns_not_lost() -> None:
    """A turn that came after the summary was made is in the prompt, and the summary still counts."""
    request = _six()
    more = replace(request, turns=(*request.turns, talk(7, "brand new")))
    answer = plan(more, 1_150)
    assert ["turn/t1", "summary/s1", "turn/t5", "turn/t6", "turn/t7"] == turns_of(answer)


def test_overlapping_summaries_never_share_a_prompt() -> None:
    """X51: the widest is taken, of equally wide ones the newest; the other names its rival."""
    request = summed(_six(), (3, 4), (2, 3))
    older = replace(request.summaries[0], id="s9", summary_version=2, summary_text="lake")
    answer = plan(replace(request, summaries=(*request.summaries, older)), 1_100)
    assert ["turn/t1", "summary/s9", "turn/t5", "turn/t6"] == turns_of(answer)
    fates = {use.id: (use.fate, use.ids) for use in answer.receipt.summaries}
    assert {"s9": ("used", ()), "s1": ("overlapped", ("s9",)), "s2": ("overlapped", ("s9",))} == {
        name: fate for name, fate in fates.items() if name in ("s9", "s1", "s2")
    }


def test_equal_ids_of_other_kinds_do_not_meet() -> None:
    """A summary, a turn and a constraint may have one id; a conversation plans as a cold planner does."""
    turns = tuple(talk(number) for number in range(1, 7))
    request = summed(asking(*turns), (1, 3))
    named = replace(request, summaries=(replace(request.summaries[0], id="t5"),))
    answer = plan(named, 1_300)
    assert ["summary/t5", "turn/t4", "turn/t5", "turn/t6"] == turns_of(answer)
    conversation = toy().conversation()
    conversation.extend(turns)
    for room in (3_000, 1_300, 700):
        warm = conversation.plan(replace(with_room(named, room), turns=()))
        assert answer_bytes(plan(named, room)) == answer_bytes(warm)


def test_a_summary_is_never_taken_for_a_frozen_turn() -> None:
    """One summary for one long turn, called like another turn whose ids are known: planned as if cold."""
    turns = (talk(1), talk(2, "note rain " * 60), *(talk(number) for number in range(3, 7)))
    conversation = toy().conversation()
    conversation.extend(turns)
    whole = with_room(asking(*turns), 5_000)
    for _ in range(2):
        assert conversation.plan(replace(whole, turns=())).accepted
    request = summed(asking(*turns), (2, 2))
    named = with_room(replace(request, summaries=(replace(request.summaries[0], id="t4"),)), 1_600)
    cold = toy().plan(named)
    assert "summary/t4" in cold.receipt.kept
    assert answer_bytes(cold) == answer_bytes(conversation.plan(replace(named, turns=())))


def test_a_new_summary_is_named_as_what_ended_the_common_prefix() -> None:
    """The prompt before had raw turns where a summary stands now; with the same summaries it is appended to."""
    before = plan(asking(*(talk(number) for number in range(1, 7))), 5_000)
    previous = Previous("p", "t1", ids=tuple(before.ids))
    answer = plan(replace(_six(), previous=previous), 1_100)
    assert answer.receipt.prefix is not None
    assert "summary_changed" == answer.receipt.prefix.broken_by
    again = Previous("p", "t1", ("s1",), ids=tuple(answer.ids))
    same = plan(replace(_six(), previous=again), 1_100)
    assert same.receipt.prefix is not None
    assert "appended" == same.receipt.prefix.broken_by


def test_a_block_goes_to_the_first_message_of_a_user() -> None:
    """A first kept turn without a user's words cannot carry the rules; the next one does."""
    from planner.values.turn import MustPreserve

    spoken = Turn("t2", 20, "completed", (Message("assistant", id="a2", text="hello " * 20,
                                                  protection_reason="audit-evidence"),))  # fmt: skip
    marked = talk(1, must_preserve=(MustPreserve("k", "pay late"),))
    answer = plan(asking(marked, spoken, talk(3)), 600)
    contents = [content for _, content in _messages(answer)]
    assert contents[0].startswith("hello")
    assert contents[1].startswith(STATE_OPEN)
    assert "- pay late\n" in contents[1]


def test_a_list_of_messages_has_no_summaries() -> None:
    """The OpenAI shape brings turns alone; nothing of it becomes state."""
    request = request_from_chat([{"role": "user", "content": "hi"}], model_bundle_id="toy-plain-char")
    assert () == request.summaries


@pytest.mark.parametrize("text", ["[end of conversation state]", f"a {STATE_CLOSE} b [end of conversation state 2]"])
def test_content_cannot_close_the_block(text: str) -> None:
    """A summary that spells the closer gets another one that it does not spell."""
    answer = plan(summed(asking(*(talk(number) for number in range(1, 7))), (2, 4), text=text), 1_150)
    block = said(answer).split(STATE_OPEN)[1]
    closer = "[end of conversation state 2]" if "state 2" not in text else "[end of conversation state 3]"
    assert 1 == block.count(closer)
