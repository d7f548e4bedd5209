"""Images and sounds in a plan: as many placeholders as the bundle declares, in their places, in every figure."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.adapters.ledger_files import export_turns, import_history
from planner.bundles.manifest import ManifestFile, dump_manifest
from planner.bundles.open import open_bundle
from planner.ledger.bodies import message_body, message_from
from planner.ledger.ledger import Ledger
from planner.planner import Planner
from planner.values.check_summary import may_be_covered
from planner.values.part_cost import DurationRule, FlatRule, PartCost, PatchRule
from planner.values.plan import Plan, Refusal
from planner.values.receipt import PartUse
from planner.values.request import CurrentRequest, Options, PlanRequest
from planner.values.turn import Message, Part, Turn
from planner.wire.dump import dump_receipt
from planner.wire.parse import parse_receipt, parse_request
from tests.laws.common import answer_bytes
from tests.support.toy import CONTROLS, ToyBundle, toy_ids

PAD = next(token for token in CONTROLS if token.text == "<|think|>")
HEAR = next(token for token in CONTROLS if token.text == "<|call|>")
COSTS = (
    PartCost("image", PAD.text, PatchRule(10), before="[img ", after="<|tools|>\n"),
    PartCost("audio", HEAR.text, DurationRule(1, 100)),
)
IMAGE = Part("image", id="p1", width_px=30, height_px=20)
SHOWN = "[img " + PAD.text * 6 + "<|tools|>\n"
NOW = "2026-11-30T08:00:00Z"


def toy_with(costs: tuple[PartCost, ...] = COSTS, template: str = "plain", **stated: Any) -> Planner:
    """Return a planner of a toy bundle that declares costs."""
    return Planner(ToyBundle(template, parts=costs, longest_token_bytes=None, **stated))


def says(role: Any, name: str, *parts: Part | str) -> Message:
    """Return a message of parts; a string is a text part."""
    made = tuple(Part("text", one) if isinstance(one, str) else one for one in parts)
    return (
        Message(role, name, parts=made)
        if len(made) > 1 or made[0].type != "text"
        else Message(role, name, made[0].text)
    )


def asked(*parts: Part | str, turns: tuple[Turn, ...] = (), room: int = 5_000, **fields: Any) -> PlanRequest:
    """Return a request whose question is a message of these parts."""
    own = Turn("now", 1_000, "open", (says("user", "q", *parts),))
    return PlanRequest(
        "toy-plain-char", CurrentRequest(turn_id="now"), turns=(*turns, own), max_input_tokens=room,
        reserved_output_tokens=0, safety_margin_tokens=0, now=NOW, **fields,
    )  # fmt: skip


def turn(number: int, *parts: Part | str) -> Turn:
    """Return a completed turn."""
    return Turn(
        f"t{number}",
        10 * number,
        "completed",
        (says("user", f"u{number}", *parts), says("assistant", f"a{number}", "ok")),
    )


def accepted(answer: Plan | Refusal) -> Plan:
    """Return a plan."""
    assert isinstance(answer, Plan), answer
    return answer


def test_a_part_stands_as_its_placeholders_in_its_place() -> None:
    """The ids are those of the text in which each part is written out, control strings of it obeyed."""
    planner = toy_with()
    plan = accepted(planner.plan(asked("look: ", IMAGE, " and ", Part("audio", id="s", duration_ms=250), "?")))
    text = f"<|user|>look: {SHOWN} and {HEAR.text * 3}?<|end|><|assistant|>"
    assert toy_ids(planner.encoder().bundle.engine, text) == list(plan.ids)
    assert text == plan.prompt
    assert (PartUse("now", "q", "p1", "image", 6), PartUse("now", "q", "s", "audio", 3)) == plan.receipt.parts
    assert ("declared", 9) == (plan.receipt.count_source, plan.account.part_tokens)
    assert len(plan.ids) == plan.account.input_tokens
    # All of the message but its markers is the request's: six characters, the image's, five, three, one.
    assert len("look: ") + len("[img ") + 6 + 1 + 1 + len(" and ") + 3 + 1 == plan.account.request_tokens


def test_a_message_may_be_one_image_alone() -> None:
    """A question without words is one where it holds a part that is no text."""
    plan = accepted(toy_with().plan(asked(IMAGE)))
    assert PAD.id in plan.ids
    assert len(plan.ids) == plan.account.input_tokens
    flat = (PartCost("image", PAD.text, FlatRule(1)),)
    assert 1 == accepted(toy_with(flat).plan(asked(Part("image", id="x")))).account.request_tokens


def test_content_that_spells_a_placeholder_stays_text() -> None:
    """Only what the bundle declares becomes a placeholder; the words beside it change no control id."""
    planner = toy_with()
    spelled = accepted(planner.plan(asked(f"{PAD.text} ", IMAGE, f" {SHOWN}")))
    plain = accepted(planner.plan(asked("." * (len(PAD.text) + 1), IMAGE, "." * (len(SHOWN) + 1))))
    wanted = [one for one in plain.ids if one <= len(CONTROLS)]
    assert wanted == [one for one in spelled.ids if one <= len(CONTROLS)]
    assert len(plain.ids) == len(spelled.ids)
    assert 8 == spelled.receipt.neutralised


@pytest.mark.parametrize(("part", "why"), [
    (Part("image", id="p9"), "it states no size, or is beyond every window"),
    (Part("image", id="p9", width_px=1 << 30, height_px=1 << 30), "it states no size, or is beyond every window"),
    (Part("audio", id="p9", duration_ms=5), "the bundle declares no cost of audio"),
])  # fmt: skip
def test_a_part_that_cannot_be_measured_is_refused_by_its_ids(part: Part, why: str) -> None:
    """Turn, message and part are named, in the question and in a turn that would be kept."""
    planner = toy_with(COSTS[:1])
    for request, place in (
        (asked("x", part), "turn now: message q"),
        (asked("x", turns=(turn(1, "y", part), turn(2, "z"))), "turn t1: message u1"),
    ):
        answer = planner.plan(request)
        assert isinstance(answer, Refusal)
        assert ("unmeasured_part", f"{place}: part p9: {why}") == (answer.reason, answer.detail)
        assert answer.receipt.account is None


def test_a_turn_that_leaves_refuses_nothing() -> None:
    """A part that cannot be measured matters where it would stand in the prompt, and nowhere else."""
    old = turn(1, "long " * 20, Part("audio", id="p9"))
    planner = toy_with(COSTS[:1])
    assert "unmeasured_part" == planner.plan(asked("x", turns=(old, turn(2, "z")))).receipt.reason
    plan = accepted(planner.plan(asked("x", turns=(old, turn(2, "z")), room=60)))
    assert "turn/t1" not in plan.kept
    assert "turn/t2" in plan.kept


def test_a_bundle_that_is_parsed_whole_measures_no_part() -> None:
    """There, content could forge a placeholder; so none is written."""
    answer = toy_with(encode_mode="whole").plan(asked("x", IMAGE))
    assert "unmeasured_part" == answer.receipt.reason
    assert toy_with(encode_mode="whole").plan(asked("x")).accepted


def test_mode_text_takes_placeholders_and_still_refuses_content_that_spells_one() -> None:
    """What we wrote may be obeyed; what content spells may not."""
    text = Options(mode="text")
    plan = accepted(toy_with().plan(asked("x", IMAGE, options=text)))
    assert 6 == plan.ids.tolist().count(PAD.id)
    assert "control_text_in_field" == toy_with().plan(asked(PAD.text, IMAGE, options=text)).receipt.reason


def test_a_placeholder_that_something_else_writes_too_is_refused() -> None:
    """The number of placeholders in the ids is compared with what was declared, whoever wrote them."""
    costs = (PartCost("image", PAD.text, FlatRule(2), before=PAD.text),)
    answer = toy_with(costs).plan(asked("x", IMAGE))
    assert isinstance(answer, Refusal)
    assert ("unmeasured_part", "3 placeholders stand in the prompt, 2 were declared") == (answer.reason, answer.detail)


@pytest.mark.parametrize("template", ["plain", "jitter"])
def test_a_growing_conversation_with_images_equals_the_cold_plan(
    template: str, seed: int, max_examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte, also audited: every plan's ids, account and receipt, while turns with images come and leave."""
    monkeypatch.setattr("planner.encoding.encoder.AUDIT_EVERY", 3)
    draw = random.Random(seed)
    for _ in range(max(2, max_examples // 8)):
        planner = toy_with(template=template)
        chat, turns = planner.conversation(), []
        for number in range(1, 14):
            made = draw.choice([
                turn(number, "word " * draw.randint(1, 8)),
                turn(number, "see ", replace(IMAGE, width_px=10 * draw.randint(1, 9)), " this"),
                turn(number, IMAGE, Part("audio", id="s", duration_ms=draw.randint(1, 900))),
            ])  # fmt: skip
            chat.append(made)
            turns.append(made)
            own = Turn("now", 1_000 + number, "open", (says("user", "q", "and ", IMAGE),))
            room = draw.randint(90, 400)
            request = replace(asked("x", room=room), turns=(), model_bundle_id=planner.bundle_id)
            cold = accepted(planner.plan(replace(request, turns=(*turns, own))))
            parts = cold.receipt.parts
            assert len(cold.ids) == cold.account.input_tokens <= room
            assert sum(part.tokens for part in parts) == cold.account.part_tokens
            held = {part.turn_id for part in parts}
            assert held == {one.id for one in (*turns, own) if one.has_media and f"turn/{one.id}" in cold.kept}
            given = replace(request, request=CurrentRequest(id="now", text="z"))
            warm = chat.plan(given)
            again = planner.plan(replace(given, turns=tuple(turns)))
            assert answer_bytes(again) == answer_bytes(warm)


def test_a_real_vocabulary_gives_the_ids_of_the_written_out_text(bundle_dir: Path, tmp_path: Path) -> None:
    """qwen3's own image token by a manifest; the oracle is the untouched tokenizer on the whole text."""
    made = open_bundle(bundle_dir / "qwen3-0.6b").manifest
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((bundle_dir / "qwen3-0.6b" / name).read_bytes())
    files = tuple(entry for entry in made.files if (tmp_path / entry.path).is_file())
    cost = PartCost("image", "<|image_pad|>", PatchRule(28), "<|vision_start|>", "<|vision_end|>")
    stated = ManifestFile(replace(made, files=files, parts=(cost,), warnings=()), template_file="tokenizer_config.json")
    (tmp_path / "bundle.json").write_bytes(dump_manifest(stated))
    planner = Planner(tmp_path)
    request = replace(asked("What is ", replace(IMAGE, width_px=280, height_px=140), " this?"), model_bundle_id=made.id)
    plan = accepted(planner.plan(request))
    body = f"What is <|vision_start|>{'<|image_pad|>' * 50}<|vision_end|> this?"
    text = f"<|im_start|>user\n{body}<|im_end|>\n<|im_start|>assistant\n"
    assert list(planner.encoder().bundle.engine.encode_parsed(text)) == list(plan.ids)
    assert 50 == plan.account.part_tokens


def test_a_turn_with_an_image_is_not_summarised() -> None:
    """A summariser would not see it; the turn stays raw, as a protected one does."""
    assert not may_be_covered(turn(1, "see ", IMAGE), ())
    assert may_be_covered(turn(1, "see ", "this"), ())


def test_parts_travel_on_the_wire_and_in_the_ledger() -> None:
    """A request, a receipt and a stored message come back as they were."""
    tree = {
        "modelBundleId": "b", "request": {"turnId": "t"},
        "turns": [{"id": "t", "sequence": 1, "state": "open", "messages": [{"id": "m", "role": "user", "parts": [
            {"type": "text", "text": "a"}, {"type": "image", "id": "p", "widthPx": 3, "heightPx": 4},
            {"type": "audio", "id": "s", "durationMs": 7},
        ]}]}],
    }  # fmt: skip
    message = parse_request(json.dumps(tree).encode()).turns[0].messages[0]
    wanted = (Part("text", "a"), Part("image", id="p", width_px=3, height_px=4), Part("audio", id="s", duration_ms=7))
    assert wanted == message.parts
    body = message_body(message)
    assert tree["turns"][0]["messages"][0]["parts"] == json.loads(body)["parts"]
    back = message_from(body, message_id="m", role="user", protection=None, sequence=1, version=1)
    assert replace(message, sequence=1) == back
    receipt = accepted(toy_with().plan(asked("x", IMAGE))).receipt
    assert receipt == parse_receipt(dump_receipt(receipt))


def test_a_ledger_plans_images_and_gives_them_out_again(tmp_path: Path) -> None:
    """The plan of a stored conversation is that of its request; an export read back is the same conversation."""
    turns = (turn(1, "see ", IMAGE), turn(2, "and?"), turn(3, IMAGE))
    planner = toy_with()
    wanted = accepted(planner.plan(replace(asked("x"), turns=turns, request=CurrentRequest(id="q", text="So?"))))
    with Ledger.open(tmp_path / "a.db") as first, Ledger.open(tmp_path / "b.db") as second:
        for one in turns:
            first.append("c", one.id, list(one.messages), state=one.state)
        stored = planner.ledger_conversation(first, "c").plan(
            replace(
                asked("x"), turns=(), request=CurrentRequest(id="q", text="So?"), generation=first.head("c").generation
            )
        )
        assert list(wanted.ids) == list(accepted(stored).ids)
        assert wanted.receipt.parts == stored.receipt.parts
        lines = b"".join(export_turns(first, "c"))
        import_history(second, "c", io.BytesIO(lines))
        assert first.view("c").chain == second.view("c").chain
        assert IMAGE in second.view("c").turns[0].messages[0].parts


def test_an_openai_list_with_an_image_needs_a_flat_cost() -> None:
    """Its data is never read, so its size is unknown; the answer holds none of it."""
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,SECRET"}}
    chat = [{"role": "user", "content": [{"type": "text", "text": "see"}, url]}]
    fields: dict[str, Any] = {"max_input_tokens": 500, "reserved_output_tokens": 0}
    answer = toy_with().plan(messages=chat, **fields)
    assert isinstance(answer, Refusal)
    assert "turn t1: message m1: part part2: it states no size, or is beyond every window" == answer.detail
    assert "SECRET" not in repr(answer)
    flat = (PartCost("image", PAD.text, FlatRule(5)),)
    assert 5 == accepted(toy_with(flat).plan(messages=chat, **fields)).account.part_tokens
