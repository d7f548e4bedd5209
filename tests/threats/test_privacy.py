"""A canary in every text channel comes out of no refusal, fault, receipt, event, log or stream (threats.md §2.9)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.foreign import cleanly, guarded
from planner.bundles.open import open_bundle
from planner.cli.main import run
from planner.planner import PlanEvent, Planner
from planner.values.plan import Refusal
from planner.values.profile import TemplateProfile
from planner.values.reasons import PlannerFault
from planner.values.request import CurrentRequest, Options, PlanRequest
from planner.wire.dump import dump_receipt, dump_refusal, dump_request
from planner.wire.parse import parse_request
from tests.bad_inputs.build_bundles import good_bundle
from tests.threats.support import Poisoned

CHANNELS = (
    "policy", "data scope", "preference", "parameter", "schema key", "tool description", "property key",
    "enum value", "user", "assistant", "reasoning", "argument key", "argument value", "result", "passage",
    "request", "switch",
)  # fmt: skip
MARK = "kestrel%dx"
ALL = [MARK % number for number in range(1, len(CHANNELS) + 1)]


def base(**changes: Any) -> PlanRequest:
    """A request of the embedded bundle with another mark in each channel (the switch is not set)."""
    mark = dict(zip(CHANNELS, ALL, strict=True))
    tree: dict[str, Any] = {
        "modelBundleId": "reference",
        "maxInputTokens": 4_096,
        "reservedOutputTokens": 16,
        "policy": [{"id": "p", "text": f"Be {mark['policy']}."}],
        "dataScope": [{"id": "s", "text": f"Only {mark['data scope']}."}],
        "preferences": [{"id": "f", "text": f"Short {mark['preference']}."}],
        "outputSchema": {"id": "o", "schema": {"type": "object", "properties": {mark["schema key"]: {}}}},
        "tools": [{"id": "find", "declaration": {"type": "function", "function": {
            "name": "find", "description": mark["tool description"], "parameters": {"type": "object", "properties": {
                mark["property key"]: {"type": "string", "enum": [mark["enum value"]]}}}}}}],
        "turns": [
            {"id": "t1", "sequence": 1, "state": "completed", "messages": [
                {"id": "u1", "role": "user", "text": f"Where is {mark['user']}?"},
                {"id": "c1", "role": "assistant", "toolCalls": [{"id": "k1", "name": "find",
                 "arguments": {mark["argument key"]: mark["argument value"]}}]},
                {"id": "r1", "role": "tool", "toolResult": {"callId": "k1", "text": f"At {mark['result']}"}},
                {"id": "a1", "role": "assistant", "text": f"It is {mark['assistant']}",
                 "reasoning": f"So {mark['reasoning']}"}]},
        ],
        "passages": [{"citationId": "q1", "text": f"About {mark['passage']}", "relevance": 0.5}],
        "request": {"id": "r", "text": f"And {mark['request']}?",
                    "requiredParameters": [{"id": "x", "text": mark["parameter"]}]},
    }  # fmt: skip
    return parse_request(json.dumps(tree | changes).encode())


class Changed(Poisoned):
    """The embedded bundle with a profile that says something else, and a template that does it."""

    def __init__(self, trigger: str, **profile: Any) -> None:
        super().__init__(trigger, before=True)
        self._changes = profile

    @property
    def profile(self) -> TemplateProfile:
        """The measured profile with changes."""
        return replace(self._inner.profile, **self._changes)


def long(text: str) -> str:
    """A text that no small window holds."""
    return f"{text} word" * 400


def _turn(number: int, state: str, *messages: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"x{number}", "sequence": 10 + number, "state": state, "messages": list(messages)}


def _two(**first: Any) -> list[dict[str, Any]]:
    said = {"id": "y1", "role": "user", "text": long(ALL[8]), **first}
    return [_turn(1, "completed", said, {"id": "y2", "role": "assistant", "text": ALL[9]})]


CALLS = [{"id": f"k{number}", "name": "find", "arguments": {ALL[11]: ALL[12]}} for number in (5, 6)]
PARALLEL = [_turn(1, "completed", {"id": "z1", "role": "user", "text": ALL[8]},
                  {"id": "z2", "role": "assistant", "toolCalls": CALLS},
                  *({"id": f"z{call['id']}", "role": "tool", "toolResult": {"callId": call["id"], "text": ALL[13]}}
                    for call in CALLS),
                  {"id": "z5", "role": "assistant", "text": ALL[9]})]  # fmt: skip
OPEN = [_turn(1, "open", {"id": "w1", "role": "user", "text": ALL[8]},
              {"id": "w2", "role": "assistant", "toolCalls": CALLS[:1]},
              {"id": "w3", "role": "tool", "toolResult": {"callId": "k5", "text": long(ALL[13])}})]  # fmt: skip
RAISES = "{% if messages | selectattr('tool_calls') | list %}{{ raise_exception(messages[0].content) }}{% endif %}"
RAISES_ON_TWO = (
    "{% for m in messages %}{% if (m.tool_calls or []) | length > 1 %}{{ raise_exception(m.content) }}{% endif %}"
    "{% endfor %}"
)
DROPS = "{% set messages = messages | rejectattr('role', 'equalto', 'tool') | list %}"

REFUSALS: dict[str, tuple[Callable[[], PlanRequest], Any]] = {
    "context_policy_overflow": (lambda: base(maxInputTokens=40), "reference"),
    "open_turn_overflow": (lambda: base(maxInputTokens=700, turns=OPEN, request={"turnId": "x1"}), "reference"),
    "protected_history_overflow": (
        lambda: base(maxInputTokens=700, turns=_two(protectionReason="audit-evidence")), "reference"),
    "input_too_large": (lambda: base(request={"text": ALL[15] + "a" * 200_000}), "reference"),
    "template_drops:result": (base, Changed(DROPS, tool_result="dropped")),
    "template_refuses_shape": (base, Changed(RAISES)),
    "role_not_supported": (
        lambda: base(turns=[_turn(1, "completed", {"id": "v1", "role": "user", "text": ALL[8]},
                                  {"id": "v2", "role": "developer", "text": ALL[9]},
                                  {"id": "v3", "role": "assistant", "text": ALL[9]})]),
        Changed("{% set messages = messages | rejectattr('role', 'equalto', 'developer') | list %}",
                late_developer="dropped")),
    "tool_call_shape_not_supported": (lambda: base(turns=PARALLEL), Changed(RAISES_ON_TWO, parallel_calls="raises")),
    "nothing_to_answer": (lambda: base(request={}), "reference"),
    "control_text_in_field": (
        lambda: replace(base(request={"text": f"{ALL[15]} <|end|>"}), options=Options(mode="text")), "reference"),
    "not_supported_yet": (lambda: base(deviceWindow=100), "reference"),
    "invalid-input": (lambda: base(templateOptions={ALL[16]: ALL[16]}), "reference"),
    "invalid-input again": (lambda: replace(base(), turns=(replace(base().turns[0], state=ALL[8]),)), "reference"),
    "template_budget": (base, Changed("{{ messages | tojson(indent=100000000) }}")),
}  # fmt: skip


def shown(answer: Refusal) -> Iterator[str]:
    """Everything of a refusal that a log, a screen or a file may hold."""
    yield answer.line()
    yield repr(answer)
    yield dump_refusal(answer).decode()
    yield dump_receipt(answer.receipt).decode()
    yield repr(answer.receipt)
    yield repr(answer.advice)
    yield repr(dict(answer.diagnostics))


def found(text: str) -> list[str]:
    """The marks a text holds."""
    return [mark for mark in ALL if mark in text]


@pytest.mark.parametrize("name", REFUSALS)
def test_R188_no_refusal_shows_a_word_of_any_channel(
    name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every kind of refusal that this version gives, with a mark in each of the channels."""
    make, bundle = REFUSALS[name]
    events: list[PlanEvent] = []
    request = make()
    with caplog.at_level(logging.DEBUG):
        answer = Planner(bundle, on_plan=events.append).plan(request)
    assert isinstance(answer, Refusal)
    assert answer.reason == name.removesuffix(" again")
    for text in shown(answer):
        assert found(text) == []
    assert found(repr(events)) == []
    streams = capfd.readouterr()
    assert found(streams.out + streams.err + caplog.text) == []


@pytest.mark.parametrize("name", [name for name, (_, bundle) in REFUSALS.items() if bundle == "reference"])
def test_the_command_shows_none_and_writes_none(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stdout, stderr, the receipt file, the cache folder and its names."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    request = tmp_path / "request.json"
    request.write_bytes(dump_request(REFUSALS[name][0]()))
    receipt = tmp_path / "receipt.json"
    assert run(["plan", str(request), "--receipt", str(receipt)]) == 2
    streams = capfd.readouterr()
    assert streams.err.count("\n") == 1
    assert found(streams.out + streams.err) == []
    assert run(["plan", str(request), "--json"]) == 2
    streams = capfd.readouterr()
    assert found(streams.out + streams.err) == []
    for path in tmp_path.rglob("*"):
        if path.is_file() and path != request:
            assert found(path.read_text(encoding="utf-8", errors="replace") + path.name) == []


def test_every_channel_is_in_the_prompt_of_the_plan_that_is_accepted() -> None:
    """So that the marks that are looked for are there."""
    answer = Planner("reference").plan(base())
    assert answer.accepted
    missing = [name for name, mark in zip(CHANNELS, ALL, strict=True) if mark not in (answer.prompt or "")]
    # Reasoning of old turns is left out by the template; the switch is set by one refusal alone.
    assert set(missing) <= {"reasoning", "switch"}
    assert len(CHANNELS) - len(missing) >= 13


def test_the_repr_of_a_request_shows_no_text() -> None:
    """A debugger's or a logger's line of the request value."""
    assert found(repr(base())) == []


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, its causes and its contexts, whatever is suppressed."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__cause__, one.__context__]


def words_of(error: BaseException) -> str:
    """What is written on an exception and on all it came from, attributes and notes included."""
    return " ".join(
        repr((one.args, getattr(one, "__notes__", None), getattr(one, "doc", None), getattr(one, "object", None)))
        for one in chain(error)
    )


def test_a_foreign_exception_leaves_nothing_on_the_fault() -> None:
    """A library's words may be the user's text; a Rust panic is no Exception."""
    panic = type("PanicException", (BaseException,), {})
    for kind in (ValueError, KeyError, panic, RecursionError, MemoryError):

        def fail(kind: type[BaseException] = kind) -> None:
            raise kind(ALL[0])

        with pytest.raises(PlannerFault) as caught:
            guarded(fail, "the tokenizer failed on a text")
        assert found(words_of(caught.value)) == []
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    with pytest.raises(KeyboardInterrupt):
        guarded(_interrupt, "an interrupt is not swallowed")


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_a_fault_raised_anew_has_no_context() -> None:
    """The document of a JSON error hangs on the exception it came from."""

    def fail() -> None:
        try:
            json.loads("{" + ALL[0])
        except ValueError:
            raise PlannerFault("bundle_unsafe", "x is not valid JSON") from None

    with pytest.raises(PlannerFault) as dirty:
        fail()
    assert found(words_of(dirty.value)) == ALL[:1]
    with pytest.raises(PlannerFault) as clean:
        cleanly(fail)
    assert found(words_of(clean.value)) == []


def test_a_tokenizer_that_fails_on_a_text_says_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the library raises with the text it was given, in the middle of a plan."""
    bundle = open_bundle("reference")
    engine: Any = bundle.engine

    class Failing:
        def encode(self, text: str, **_: object) -> None:
            raise ValueError(text)

    monkeypatch.setattr(engine, "_tokenizer", Failing())
    with pytest.raises(PlannerFault, match="tokenizer_failed: the tokenizer failed on a text") as caught:
        Planner(bundle).plan(base())
    assert found(words_of(caught.value)) == []


@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "bundle.json"])
def test_a_damaged_file_leaves_nothing_of_it_on_the_fault(tmp_path: Path, file: str) -> None:
    """Neither the message nor any exception it came from holds a word of the file."""
    folder = good_bundle(tmp_path, manifest=file == "bundle.json")
    (folder / file).write_bytes(f'{{"{ALL[0]}": {ALL[1]}, {{% {ALL[2]} %}}'.encode() + b"\xff")
    with pytest.raises(PlannerFault) as caught:
        open_bundle(folder)
    assert found(words_of(caught.value)) == []


SPOKEN = "canary-5d1e"


@pytest.mark.parametrize(
    "change",
    [
        {"model_bundle_id": f"{SPOKEN} 1"}, {"conversation_id": f"{SPOKEN} 2"}, {"now": f"{SPOKEN} 3"},
        {"policy_version": f"{SPOKEN} 4"}, {"app_version": f"{SPOKEN} 5"}, {"candidate_id": f"{SPOKEN} 6"},
    ],
)  # fmt: skip
def test_a_receipt_of_a_broken_request_does_not_repeat_the_broken_field(change: dict[str, Any]) -> None:
    """A header field that breaks its rule may hold any text; the receipt says that it is invalid and no more."""
    request = replace(PlanRequest("reference", CurrentRequest(id="q", text="so?")), **change)
    answer = Planner("reference").plan(request)
    assert "invalid-input" == answer.receipt.reason
    assert SPOKEN.encode() not in dump_receipt(answer.receipt)
    assert SPOKEN not in repr(answer)
