"""`planner plan --ledger`: the same plan as the library's, with its receipt stored or a word that it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.adapters.frames import stored_frame
from planner.cli import opening
from planner.ledger.ledger import Ledger
from planner.planner import Planner
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault
from planner.values.request import PlanRequest
from planner.values.turn import Message
from planner.wire.dump import dump_receipt
from planner.wire.parse import parse_plan, parse_receipt
from tests.cli.ledger_support import CANARY, chat_file, here, model_server

Capture = pytest.CaptureFixture[bytes]
REFERENCE = ("--bundle", "reference")


@pytest.fixture
def where(tmp_path: Path, capsysbinary: Capture) -> tuple[str, ...]:
    """A ledger with one imported chat, as options."""
    found = ("--ledger", str(tmp_path / "a.db"), "--conversation", "c1")
    assert 0 == here(capsysbinary, "ledger", "import", chat_file(tmp_path), *found).code
    return found


def test_the_command_and_the_library_plan_the_same(where: tuple[str, ...], capsysbinary: Capture) -> None:
    """Ids and receipt are those of the library's call, and the receipt is in the ledger."""
    done = here(capsysbinary, "plan", *where, *REFERENCE, "--window", "2048", "--json")
    assert (0, "") == (done.code, done.err)
    plan = parse_plan(done.out)
    with Ledger.open(where[1]) as ledger:
        frame = stored_frame(ledger, "c1")
        assert frame is not None
        planner = Planner("reference")
        from planner.cli.asking import Overrides

        request = Overrides(window=2048).apply(frame.request, "reference")
        expected = planner.ledger_conversation(ledger, "c1").plan(request, record=False)
        assert (getattr(expected, "ids", None), expected.receipt) == (plan.ids, plan.receipt)
        assert dump_receipt(plan.receipt) == ledger.receipt("c1", plan.receipt.plan_id)
    assert "c1" == plan.receipt.conversation_id


def test_every_output_of_a_plan_works(where: tuple[str, ...], tmp_path: Path, capsysbinary: Capture) -> None:
    """Receipt, ids, plan file and prompt are written as for any plan; only the prompt holds words."""
    outputs = {"--receipt": "r.json", "--plan-file": "f.json", "--ids": "i.npy", "--prompt": "p.txt"}
    words = [part for option, name in outputs.items() for part in (option, str(tmp_path / name))]
    done = here(capsysbinary, "plan", *where, *REFERENCE, *words)
    assert (0, "") == (done.code, done.err)
    assert CANARY not in done.text
    texts = {name: (tmp_path / name).read_bytes() for name in outputs.values()}
    assert ["p.txt"] == [name for name, data in texts.items() if CANARY.encode() in data]
    assert "accepted" == parse_receipt(texts["r.json"]).outcome


def test_a_long_conversation_has_its_prompt(where: tuple[str, ...], tmp_path: Path, capsysbinary: Capture) -> None:
    """The prompt is the text of the ids where most turns left, as it is for any plan of the command line."""
    with Ledger.open(where[1]) as ledger:
        for number in range(60):
            said = [Message("user", f"q{number}", "Why? " * 30), Message("assistant", f"a{number}", "So. " * 30)]
            ledger.append("c2", f"x{number}", said, state="completed")
        ledger.append("c2", "asked", [Message("user", "asked-1", "And now?")])
    prompt = tmp_path / "p.txt"
    long = (*where[:2], "--conversation", "c2", *REFERENCE, "--window", "2048")
    done = here(capsysbinary, "plan", *long, "--prompt", prompt, "--json")
    assert (0, "") == (done.code, done.err)
    planner = Planner("reference")
    ids = list(parse_plan(done.out).ids)
    assert ids == list(planner.encoder().bundle.engine.encode_parsed(prompt.read_text(encoding="utf-8")))
    with Ledger.open(where[1]) as ledger:
        asked = PlanRequest("reference", max_input_tokens=2_048)
        answer = planner.ledger_conversation(ledger, "c2").plan(asked, record=False)
    assert isinstance(answer, Plan)
    assert ("spliced", None) == (answer.diagnostics["speed"], answer.prompt)


def test_a_request_brings_policy_and_the_ledger_the_rest(
    where: tuple[str, ...], tmp_path: Path, capsysbinary: Capture
) -> None:
    """REQUEST.json may be `{}`, then there is no policy; with one, it is used in place of the stored one."""
    path = tmp_path / "request.json"
    for tree, kept in (({}, "turn/t1"), ({"policy": [{"id": "new", "text": "Be kind."}]}, "policy/new")):
        path.write_text(json.dumps(tree))
        assert kept == here(capsysbinary, "plan", path, *where, *REFERENCE, "--json").json["kept"][0]
    assert "policy/p1" == here(capsysbinary, "plan", *where, *REFERENCE, "--json").json["kept"][0]


def test_a_policy_of_the_same_words_uses_the_same_summaries(
    where: tuple[str, ...], tmp_path: Path, capsysbinary: Capture
) -> None:
    """X13: without `policyVersion` the words are the version, from a file as from the ledger."""
    with model_server() as model:
        assert 0 == here(capsysbinary, "compact", "run", *where, "--risk", "low", "--url", model.url).code
    path, receipt = tmp_path / "request.json", tmp_path / "receipt.json"
    window = (*where, *REFERENCE, "--window", "1500", "--reserve", "64")
    stale = [("stale-source", "policy_version")]
    for text, fates in (("Answer shortly.", [("used", None)]), ("Answer at length.", stale)):
        tree = {"modelBundleId": "reference", "policy": [{"id": "p1", "text": text}], "request": {"text": "And?"}}
        path.write_text(json.dumps(tree))
        done = here(capsysbinary, "plan", path, *window, "--json", "--receipt", receipt)
        assert fates == [(one["fate"], one["cause"]) for one in done.json["receipt"]["summaries"]]
        replayed = here(capsysbinary, "replay", receipt, "--ledger", where[1])
        assert (0, "") == (replayed.code, replayed.err)
        shown = here(capsysbinary, "explain", receipt).text
        assert (fates[0][1] or "used") in shown
        assert "@0" not in shown


def test_a_question_may_come_with_the_request(where: tuple[str, ...], tmp_path: Path, capsysbinary: Capture) -> None:
    """`request.text` asks a new question behind the stored turns, without storing it."""
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"request": {"id": "q", "text": "And now?"}}))
    done = here(capsysbinary, "plan", path, *where, *REFERENCE, "--json")
    assert "request/q" == done.json["kept"][-1]
    with Ledger.open(where[1]) as ledger:
        assert 13 == ledger.head("c1").turns


def test_without_record_the_ledger_stays_as_it_is(where: tuple[str, ...], capsysbinary: Capture) -> None:
    """`--no-record` writes not a byte and needs no word about it."""
    before = Path(where[1]).read_bytes()
    done = here(capsysbinary, "plan", *where, *REFERENCE, "--no-record", "--json")
    assert (0, "") == (done.code, done.err)
    assert before == Path(where[1]).read_bytes()


def test_a_ledger_that_may_only_be_read_is_planned(
    where: tuple[str, ...], capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is there, and stderr says that nothing was recorded."""

    def refuse(name: str, *, create: bool = False, read_only: bool = False, unchecked: bool = False) -> Ledger:
        if not read_only:
            raise PlannerFault("ledger_read_only", "the file")
        return Ledger.open(name, read_only=True)

    monkeypatch.setattr(opening, "open_ledger", refuse)
    done = here(capsysbinary, "plan", *where, *REFERENCE, "--json")
    assert (0, "nothing is recorded: the ledger may only be read here\n") == (done.code, done.err)
    with Ledger.open(where[1]) as ledger:
        assert ledger.receipt("c1", done.json["receipt"]["planId"]) is None


def test_a_refused_plan_is_recorded_too(where: tuple[str, ...], capsysbinary: Capture) -> None:
    """R184: exit 2 with its line, and the refusal's receipt is in the ledger."""
    done = here(capsysbinary, "plan", *where, *REFERENCE, "--window", "40", "--reserve", "30", "--json")
    assert 2 == done.code
    assert done.err.startswith("context plan rejected: context_policy_overflow: ")
    assert CANARY not in done.text + done.err
    with Ledger.open(where[1]) as ledger:
        assert ledger.receipt("c1", done.json["receipt"]["planId"]) is not None


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        ({"turns": [{"id": "x", "sequence": 1, "state": "open", "messages": [{"role": "user", "text": "x"}]}]},
         "invalid-input: $.turns: a ledger brings its own turns and summaries"),
        ({"conversationId": "other"}, "invalid-input: $.conversationId: is another conversation than --conversation"),
        ({"generation": 7}, "stale_generation: generation 7, the conversation has 1"),
        ({CANARY: 1}, "invalid-input: $: has an unknown field"),
        ([], "invalid-input: $: expected an object"),
    ],
)  # fmt: skip
def test_a_request_that_contradicts_the_ledger_is_refused(
    where: tuple[str, ...], tmp_path: Path, capsysbinary: Capture, tree: object, line: str
) -> None:
    """R55 and design.md §9: another conversation, an older page, turns of its own."""
    path = tmp_path / "request.json"
    path.write_text(json.dumps(tree))
    done = here(capsysbinary, "plan", path, *where, *REFERENCE, "--receipt", tmp_path / "r.json")
    assert (2, f"context plan rejected: {line}\n") == (done.code, done.err)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--ledger", "a.db"], "--ledger needs --conversation"),
        (["--conversation", "c1"], "--conversation, --no-record and --off go with --ledger"),
        (["r.json", "--no-record"], "--conversation, --no-record and --off go with --ledger"),
        (["r.json", "--off", "model"], "--conversation, --no-record and --off go with --ledger"),
        (["--ledger", "a.db", "--conversation", "c1", "--chat", "c.json"],
         "--chat brings its own history; see planner ledger import"),
        (["--ledger", "a.db", "--conversation", "c1", "--tools", "t.json"],
         "--tools goes with --chat; a request holds its own tools"),
        (["--ledger", "a.db", "--conversation", "c1", "--receipt", "a.db"], "--receipt names the file of an input"),
    ],
)  # fmt: skip
def test_a_command_line_that_contradicts_itself_is_refused(
    capsysbinary: Capture, arguments: list[str], line: str
) -> None:
    """Before anything is opened."""
    done = here(capsysbinary, "plan", *arguments)
    assert (2, b"", f"context plan rejected: invalid-input: {line}\n") == (done.code, done.out, done.err)


def test_an_unknown_conversation_is_refused(where: tuple[str, ...], capsysbinary: Capture) -> None:
    """No plan of nothing."""
    done = here(capsysbinary, "plan", "--ledger", where[1], "--conversation", "other", *REFERENCE)
    assert (2, "context plan rejected: conversation_not_found: no such conversation\n") == (done.code, done.err)
