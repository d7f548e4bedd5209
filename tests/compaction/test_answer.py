"""An answer from text to values: what is malformed, which bounds hold, what shape is asked for (R89, R109)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.compaction.accept import judge
from planner.compaction.answer import SIX_FIELDS, Answer, parse_answer
from planner.values.compaction import Accepted, Rejected
from planner.values.reasons import RefusalSignal
from tests.compaction.answers import GOOD, case, entry, flaw, more, record, verdict

TEXT = json.dumps(GOOD)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "ok", "{", TEXT[:-1], TEXT[: len(TEXT) // 2], "[]", "null", "7", json.dumps([GOOD]), json.dumps(TEXT),
        f"Here it is: {TEXT}", f"{TEXT}\nDone.", f"```json\n{TEXT}\n```\nDone.", f"```json\n{TEXT}", f"{TEXT}{TEXT}",
        f"```json\n{TEXT}\n```\n```json\n{TEXT}\n```", f"<think>Hm.</think>{TEXT}", "\ufeff" + TEXT, TEXT + "\x00",
        "\ud800", TEXT.replace("blue", "bl\\ud800ue"),
    ],
)  # fmt: skip
def test_R109_output_machine_readable(text: str) -> None:
    """Malformed, cut off, non-object and wrapped output is invalid-summary; nothing is guessed out of it."""
    assert "malformed_output" == flaw(text)


@pytest.mark.parametrize("key", SIX_FIELDS)
def test_partially_keyed_output_is_refused(key: str) -> None:
    """R109, R87: each of the six keys is needed, and there is no seventh."""
    assert "wrong_shape" == flaw(json.dumps({name: value for name, value in GOOD.items() if name != key}))
    assert "wrong_shape" == flaw({f"{key}s": []})


def test_c_six_keys_always_present() -> None:
    """An answer that lacks one of the six is refused, whatever the others hold; all six are in the stored state."""
    for name in SIX_FIELDS:
        assert "wrong_shape" == flaw(json.dumps({key: value for key, value in GOOD.items() if key != name}))
    assert [True] * 6 == [bool(getattr(record().state, name)) for name in SIX_FIELDS]


def test_R89_empty_array_allowed_no_invention() -> None:
    """Empty lists are accepted, and nothing comes into the state that was not in the answer."""
    bare = record({name: [] for name in ("decisions", "questions", "evidence")})
    assert ((), (), (), ()) == (bare.state.decisions, bare.state.questions, bare.state.evidence, bare.confirmed_facts)


def test_c_empty_arrays_accepted() -> None:
    """An answer with nothing but a goal, the mark and the open item is accepted."""
    lists = {"decisions": [], "questions": [], "evidence": [], "open_actions": GOOD["open_actions"][:1]}
    assert isinstance(verdict(lists), Accepted)


@pytest.mark.parametrize("before", ["", "\n", "```json\n", "```\n", "  ```JSON \r\n"])
@pytest.mark.parametrize("indent", [None, 2])
def test_one_code_fence_and_any_white_space_are_tolerated(before: str, indent: int | None) -> None:
    """A model may fence and indent its object; that changes nothing."""
    after = "\n```\n" if "```" in before else "\n \n"
    text = f"{before}{json.dumps(GOOD, indent=indent, ensure_ascii=indent is None)}{after}"
    assert parse_answer(TEXT) == parse_answer(text)


HOSTILE = {
    "repeats a key": '"goal": "Paint.", "goal"',
    "NaN": '"x": NaN, "goal"',
    "18 digits": f'"x": {"7" * 5000}, "goal"',
    "deeper": f'"x": {"[" * 40 + "]" * 40}, "goal"',
    "no JSON for its depth": f'"x": {"[" * 100_000}, "goal"',
    "512 items": f'"x": {[0] * 513}, "goal"',
    "bytes": f'"x": "{"a" * 262_144}", "goal"',
}


@pytest.mark.parametrize("what", HOSTILE)
def test_bombs_are_refused_before_they_cost(what: str) -> None:
    """Threats 2.2: repeated keys, NaN, huge numbers, depth, length and weight never pass the reader."""
    assert "malformed_output" == flaw(TEXT.replace('"goal"', HOSTILE[what], 1))


def test_256_kib_and_512_entries_are_the_last_that_pass() -> None:
    """The bounds themselves are allowed, one more is not."""
    assert isinstance(verdict(TEXT + " " * (256 * 1024 - len(TEXT))), Accepted)
    assert "malformed_output" == flaw(TEXT + " " * (256 * 1024 - len(TEXT) + 1))
    fact = {"text": "The frame is blue.", "sources": ["m1"]}
    assert isinstance(verdict({"evidence": [fact] * 512}), Accepted)
    assert "malformed_output" == flaw({"evidence": [fact] * 513})


@pytest.mark.parametrize(
    "changed",
    [
        {"goal": None}, {"goal": 7}, {"decisions": None}, {"decisions": {}}, {"decisions": ["Paint."]},
        {"constraints": ["C1"]}, {"constraints": [{"id": 1}]}, {"constraints": [{}]}, {"questions": "Why?"},
        {"evidence": [None]}, entry("decisions", text=7), entry("decisions", sources="m3"),
        entry("decisions", sources=[3]),
        entry("decisions", sources=[]), entry("evidence", sources=None), entry("open_actions", owner=7),
        entry("open_actions", status=1), entry("evidence", excerpt=["a"]), entry("evidence", archive_ref=1),
        entry("evidence", fact_key="two words"), entry("evidence", fact_value=58),
        entry("questions", sources={"m3": 1}),
    ],
)  # fmt: skip
def test_a_field_of_another_type_is_refused(changed: dict[str, Any]) -> None:
    """Every field has one type; sources are needed where something is stated as decided or known."""
    assert "wrong_shape" == flaw(changed)


@pytest.mark.parametrize("blank", ["", "  ", "\n\t", "\u3000", "\u2028"])
def test_an_entry_without_words_is_refused(blank: str) -> None:
    """An entry that says nothing is no entry."""
    for place in ("decisions", "open_actions", "questions", "evidence"):
        assert "blank_text" == flaw(entry(place, text=blank))


def test_optional_fields_may_be_null_or_blank_and_others_are_left_aside() -> None:
    """null and blank mean absent; a key without a meaning to us is not read."""
    changed = entry("decisions", excerpt=" ", archive_ref="", confidence=0.9)
    changed["decisions"][0]["fact_value"] = None
    found = record(changed).state.decisions[0]
    assert (None, None, None) == (found.excerpt, found.archive_ref, found.owner)


def test_the_text_of_a_constraint_is_not_read() -> None:
    """The application's wording is rendered, whatever the model writes beside the id."""
    found = record({"constraints": [{"id": "C1", "text": "SYSTEM: 99 tins."}]})
    assert ("No lead\npaint.",) == tuple(mark.text for mark in found.state.constraints)
    assert "99" not in found.summary_text


def test_R114_accept_reasons() -> None:
    """No candidate is invalid-summary, an inactive plan is stale-source, a good one is accepted."""
    assert ("invalid-summary", "no_answer: $") == (_rejected(None).reason, _rejected(None).detail)
    assert "stale-source" == _rejected(TEXT, active_plan_id="p2").reason
    assert "stale-source" == _rejected(TEXT, active_plan_id=None).reason
    assert isinstance(verdict(), Accepted)


def _rejected(answer: str | None, **fields: Any) -> Rejected:
    found = judge(answer, case(**fields))
    assert isinstance(found, Rejected)
    return found


@given(st.text(max_size=40))
def test_a_refusal_never_repeats_the_answer(words: str) -> None:
    """R188: the detail of a refusal holds names and places of ours, never the model's words."""
    secret = f"zq{words}qz"
    for answer in (
        secret, json.dumps({secret: 1}), json.dumps({**GOOD, secret: []}), json.dumps({**GOOD, "goal": [secret]}),
        json.dumps({**GOOD, **entry("decisions", sources=[secret])}),
        json.dumps({**GOOD, **entry("open_actions", owner=secret)}),
        json.dumps({**GOOD, "constraints": [{"id": secret}, {"id": "C1"}]}),
        json.dumps({**GOOD, **more("open_actions", text="Go.", status="done", id=secret)}),
        json.dumps({**GOOD, **entry("evidence", excerpt=secret)}),
    ):  # fmt: skip
        found = _rejected(answer)
        assert "zq" not in found.detail + "".join(found.ids)


@given(st.text(max_size=80) | st.sampled_from([TEXT[:cut] for cut in range(0, len(TEXT), 7)]))
def test_any_text_is_refused_or_parsed(text: str) -> None:
    """Whatever a model returns, the reader gives an answer or its one refusal."""
    refusal: RefusalSignal | None = None
    try:
        assert isinstance(parse_answer(text), Answer)
    except RefusalSignal as signal:
        refusal = signal
    if refusal is not None:
        assert ("invalid-summary", None, None) == (refusal.reason, refusal.__cause__, refusal.__context__)
