"""`planner compact` from a real dialogue to a summary in a plan, and everything that is refused on the way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.ledger.ledger import Ledger
from planner.values.compaction import CompactionPlan
from planner.values.turn import Message
from planner.wire.parse import parse_record
from tests.cli.ledger_support import CANARY, Model, chat_file, extractive, here, model_server
from tests.cli.support import DEMO, ROOT, Done, planner

Capture = pytest.CaptureFixture[bytes]
REFERENCE = ("--bundle", "reference")
LOW = ("--risk", "low")
SMALL = (*REFERENCE, "--window", "2048", "--reserve", "400")


@pytest.fixture
def model() -> Iterator[Model]:
    """A running model server."""
    with model_server() as server:
        yield server


@pytest.fixture
def where(tmp_path: Path, capsysbinary: Capture) -> tuple[str, ...]:
    """A ledger with one imported chat, as options."""
    found = ("--ledger", str(tmp_path / "a.db"), "--conversation", "c1")
    assert 0 == here(capsysbinary, "ledger", "import", chat_file(tmp_path), *found).code
    return found


def _summaries(plan: Any) -> list[str]:
    return [name for name in plan["kept"] if name.startswith("summary/")]


def test_a_dialogue_is_compacted_and_planned(where: tuple[str, ...], model: Model, capsysbinary: Capture) -> None:
    """Import, plan, compact over HTTP, plan again with the summary, edit, and status says why it is stale."""
    window = ("--window", "1500", "--reserve", "64")
    before = here(capsysbinary, "plan", *where, *REFERENCE, *window, "--json").json
    assert ([], "over_budget") == (_summaries(before), before["removed"][0]["reason"])
    done = here(capsysbinary, "compact", "run", *where, *LOW, "--url", model.url)
    assert (0, "") == (done.code, done.err)
    assert done.text.startswith("run 0: sequences 2 .. 20: accepted ")
    name = done.text.split()[-1]
    after = here(capsysbinary, "plan", *where, *REFERENCE, *window, "--json").json
    assert ([f"summary/{name.partition('@')[0]}"], [name]) == (
        _summaries(after), after["receipt"]["summaryVersions"]
    )  # fmt: skip
    assert "replaced_by_summary" == after["removed"][0]["reason"]
    status = here(capsysbinary, "compact", "status", *where, "--json").json
    assert ([name], [[2, 20]], [], []) == tuple(status[key] for key in ("current", "covers", "stale", "waiting"))
    assert name in here(capsysbinary, "compact", "status", *where).text
    for off in ("store", "model"):
        assert [] == _summaries(here(capsysbinary, "plan", *where, *REFERENCE, *window, "--off", off, "--json").json)
    with Ledger.open(where[1]) as ledger:
        ledger.edit("c1", "m4", Message("user", "m4", "Changed."))
    stale = here(capsysbinary, "compact", "status", *where, "--json").json
    assert ([], [("source_changed", "m4")]) == (
        stale["current"], [(one["cause"], one["causingId"]) for one in stale["stale"]]
    )  # fmt: skip
    assert "source_changed m4" in here(capsysbinary, "compact", "status", *where).text
    again = here(capsysbinary, "plan", *where, *REFERENCE, *window, "--json").json
    assert ([], "stale-source") == (
        _summaries(again),
        next(one["reason"] for one in again["removed"] if one["id"].startswith("summary/")),
    )
    versions = here(capsysbinary, "compact", "versions", *where, "--json").json
    assert ["stale"] == [one["status"] for one in versions]
    assert "stale" in here(capsysbinary, "compact", "versions", *where).text


def test_the_demo_is_compacted_in_a_small_window(tmp_path: Path, model: Model, capsysbinary: Capture) -> None:
    """A real tool-calling chat is split to the summariser's window; every run that is stored shows up in a plan."""
    where = ("--ledger", tmp_path / "a.db", "--conversation", "desk")
    here(capsysbinary, "ledger", "import", DEMO / "building_desk.chat.json", *where)
    done = here(capsysbinary, "compact", "run", *where, *LOW, *REFERENCE, "--window", "8192", "--url", model.url,
                "--json")  # fmt: skip
    stored = [one["summaryId"] for one in done.json if one.get("status") == "accepted"]
    assert len(done.json) >= 2
    assert stored
    plan = here(capsysbinary, "plan", *where, *REFERENCE, "--window", "8192", "--json").json
    assert set(_summaries(plan)) <= {f"summary/{name}" for name in stored}
    assert _summaries(plan)


def test_each_step_can_be_taken_alone(where: tuple[str, ...], tmp_path: Path, capsysbinary: Capture) -> None:
    """Propose, prompt, a model of one's own, accept: the same end as `run`; the answer again is no second version."""
    plan = parse_record(CompactionPlan, here(capsysbinary, "compact", "propose", *where, *LOW, "--json").out)
    assert plan.plan_id in here(capsysbinary, "compact", "propose", *where, *LOW).text
    asked = here(capsysbinary, "compact", "prompt", *where, *LOW)
    assert (0, "") == (asked.code, asked.err)
    prompt = json.loads(asked.out)
    assert (plan.plan_id, 0, [2, 20]) == (prompt["planId"], prompt["run"], prompt["covers"])
    assert ["system", "user"] == [message["role"] for message in prompt["messages"]]
    answer = tmp_path / "answer.json"
    answer.write_text(extractive(prompt["messages"]), encoding="utf-8")
    trial = here(capsysbinary, "compact", "trial", answer, *where, *LOW, "--json")
    assert (0, ["accepted"]) == (trial.code, trial.json["verdicts"])
    assert "nothing was written" in here(capsysbinary, "compact", "trial", answer, *where, *LOW).text
    assert [] == here(capsysbinary, "compact", "versions", *where, "--json").json
    first = here(capsysbinary, "compact", "accept", answer, *where, *LOW, "--run", "0")
    assert (0, f"accepted {plan.plan_id}.0@1\n", "") == (first.code, first.text, first.err)
    again = here(capsysbinary, "compact", "accept", answer, *where, *LOW, "--run", "0", "--plan", plan.plan_id)
    assert (0, f"duplicate {plan.plan_id}.0@1\n") == (again.code, again.text)
    nothing = here(capsysbinary, "compact", "propose", *where, *LOW)
    assert (0, "nothing to compact: no completed turn outside the tail is free\n") == (nothing.code, nothing.text)
    assert not here(capsysbinary, "compact", "propose", *where, *LOW, "--json").json["planned"]


def test_exact_ids_go_to_llama(where: tuple[str, ...], model: Model, capsysbinary: Capture) -> None:
    """With a bundle, the server that takes ids gets the planned ones, and its count is compared."""
    here(capsysbinary, "compact", "propose", *where, *LOW, *SMALL)
    lines = here(capsysbinary, "compact", "prompt", *where, *LOW, *SMALL, "--ids").out
    prompts = [json.loads(line) for line in lines.splitlines()]
    one = here(capsysbinary, "compact", "prompt", *where, *LOW, *SMALL, "--run", "1").out
    assert [1] == [json.loads(line)["run"] for line in one.splitlines()]
    model.known = {tuple(prompt["ids"]): prompt["messages"] for prompt in prompts}
    done = here(capsysbinary, "compact", "run", *where, *LOW, *SMALL, "--url", model.url)
    assert (0, "") == (done.code, done.err)
    assert ["/props", *["/completion"] * len(prompts)] == [path for path, _ in model.asked]
    assert len(prompts) == len(done.text.splitlines())


def test_a_key_comes_from_the_environment(
    where: tuple[str, ...], model: Model, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key stands in a variable and in the header, nowhere else; a variable that is not set is refused."""
    run = ("compact", "run", *where, *LOW, "--url", model.url, "--api-key-env", "MODEL_KEY")
    monkeypatch.delenv("MODEL_KEY", raising=False)
    done = here(capsysbinary, *run)
    line = "context plan rejected: invalid-input: --api-key-env names no variable that is set\n"
    assert (2, line, []) == (done.code, done.err, model.asked)
    monkeypatch.setenv("MODEL_KEY", CANARY)
    done = here(capsysbinary, *run, "--model", "m")
    assert (0, [f"Bearer {CANARY}"]) == (done.code, [key for path, key in model.asked if path != "/props"])
    assert CANARY not in done.text


def test_a_bad_answer_is_tried_twice_and_rejected(where: tuple[str, ...], model: Model, capsysbinary: Capture) -> None:
    """R114: exit 2 with a typed reason and no word of the answer; a third try asks nobody."""
    model.answer = lambda _: f"ok {CANARY}"
    done = here(capsysbinary, "compact", "run", *where, *LOW, "--url", model.url)
    assert (2, 2) == (done.code, model.asked_for_text())
    assert done.err.startswith("context plan rejected: invalid-summary: ")
    assert 1 == done.err.count("\n")
    assert done.text.startswith("run 0: sequences 2 .. 20: rejected invalid-summary: ")
    assert CANARY not in done.text + done.err
    done = here(capsysbinary, "compact", "run", *where, *LOW, "--url", model.url, "--json")
    assert ("invalid-summary", "retry_spent: $") == (done.json[0]["reason"], done.json[0]["detail"])


def test_a_cut_answer_is_never_read(
    where: tuple[str, ...], tmp_path: Path, model: Model, capsysbinary: Capture
) -> None:
    """R59: an answer that ran into its limit is rejected however complete it looks, and the same whole one is taken."""
    line = "context plan rejected: invalid-summary: cut_off: $\n"
    here(capsysbinary, "compact", "propose", *where, *LOW)
    prompt = json.loads(here(capsysbinary, "compact", "prompt", *where, *LOW).out)
    answer = tmp_path / "answer.json"
    answer.write_text(extractive(prompt["messages"]), encoding="utf-8")
    accept = ("compact", "accept", answer, *where, *LOW, "--run", "0")
    assert (2, line) == _outcome(here(capsysbinary, *accept, "--finish", "length"))
    assert (0, "") == _outcome(here(capsysbinary, *accept))
    other = (*where[:3], "c2")
    here(capsysbinary, "ledger", "import", tmp_path / "chat.json", *other)
    model.finish = "length"
    assert (2, line) == _outcome(here(capsysbinary, "compact", "run", *other, *LOW, "--url", model.url))


def _outcome(done: Done) -> tuple[int, str]:
    return done.code, done.err


def test_a_rejected_answer_in_a_trial_writes_nothing(
    where: tuple[str, ...], tmp_path: Path, capsysbinary: Capture
) -> None:
    """R126: the verdict is there, exit 2, and the file is byte for byte what it was."""
    answer = tmp_path / "answer.json"
    answer.write_text(CANARY, encoding="utf-8")
    before = Path(where[1]).read_bytes()
    done = here(capsysbinary, "compact", "trial", answer, *where, *LOW)
    assert 2 == done.code
    assert done.err.startswith("context plan rejected: invalid-summary: ")
    assert CANARY not in done.text + done.err
    done = here(capsysbinary, "compact", "trial", answer, answer, *where, *LOW)
    assert (2, "") == (done.code, done.text)
    assert done.err.endswith("there are more answers than runs of the plan, which has 1\n")
    assert before == Path(where[1]).read_bytes()


def test_an_answer_too_late_is_stale(where: tuple[str, ...], tmp_path: Path, capsysbinary: Capture) -> None:
    """R113: an edit between the prompt and its answer makes the answer worthless, and the line says which message."""
    here(capsysbinary, "compact", "propose", *where, *LOW)
    prompt = json.loads(here(capsysbinary, "compact", "prompt", *where, *LOW).out)
    with Ledger.open(where[1]) as ledger:
        ledger.edit("c1", "m4", Message("user", "m4", "Changed."))
    answer = tmp_path / "answer.json"
    answer.write_text(extractive(prompt["messages"]), encoding="utf-8")
    done = here(capsysbinary, "compact", "accept", answer, *where, *LOW, "--run", "0", "--json")
    assert (2, "stale-source", ["m4"]) == (done.code, done.json["reason"], done.json["ids"])
    assert "context plan rejected: stale-source: source_changed: $ m4\n" == done.err


def test_a_server_that_fails_leaves_what_was_stored(
    where: tuple[str, ...], model: Model, capsysbinary: Capture
) -> None:
    """A fault in the middle ends with its line; the next run asks for what is missing and for nothing else."""
    small = (*SMALL, "--url", model.url)
    answers = iter([extractive])

    def once(messages: list[dict[str, str]]) -> str:
        found = next(answers, None)
        if found is None:
            model.status = 500
            return ""
        return found(messages)

    model.answer = once
    done = here(capsysbinary, "compact", "run", *where, *LOW, *small)
    line = "context plan rejected: upstream_failed: the model server answered with status 500\n"
    assert (2, line, 1) == (done.code, done.err, len(done.text.splitlines()))
    model.answer, model.status, model.asked = extractive, 200, []
    done = here(capsysbinary, "compact", "run", *where, *LOW, *small)
    assert (0, model.asked_for_text()) == (done.code, len(done.text.splitlines()))
    status = here(capsysbinary, "compact", "status", *where, "--json").json
    assert ([], 1 + model.asked_for_text()) == (status["waiting"], len(status["current"]))


def test_a_run_too_large_for_the_summariser_says_so(
    where: tuple[str, ...], model: Model, capsysbinary: Capture
) -> None:
    """A plan made without a bundle is not sent to a window it does not fit; `--replace` makes one that fits."""
    here(capsysbinary, "compact", "propose", *where, *LOW)
    small = (*SMALL, "--url", model.url)
    done = here(capsysbinary, "compact", "run", *where, *LOW, *small)
    detail = "run 0 does not fit the summariser; run again with --replace"
    assert (2, f"context plan rejected: context_policy_overflow: {detail}\n") == (done.code, done.err)
    assert 0 == model.asked_for_text()
    assert 0 == here(capsysbinary, "compact", "run", *where, *LOW, *small, "--replace").code


def test_a_summariser_that_cannot_be_asked_is_named(
    where: tuple[str, ...], model: Model, tmp_path: Path, capsysbinary: Capture
) -> None:
    """R215: a call that its template refuses is not "too large": the line has the refusal's code, nobody is asked."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    for name in ("chat_template.jinja", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "model_bundles" / "reference" / name, folder)
    template = folder / "chat_template.jinja"
    whole = template.read_text(encoding="utf-8")
    template.write_text(whole.replace("{{- '<|system|>' }}", "{{- raise_exception('no') }}"), encoding="utf-8")
    options = (*where, "--bundle", str(folder), "--window", "8000")
    wanted = "context plan rejected: role_not_supported: the summariser's call: role system\n"
    for words in (("propose",), ("trial",), ("run", "--url", model.url)):
        done = here(capsysbinary, "compact", *words, *options)
        assert (2, "", wanted) == (done.code, done.text, done.err)
    assert [] == model.asked


def test_a_summary_of_an_older_generation_is_adopted(
    where: tuple[str, ...], model: Model, capsysbinary: Capture
) -> None:
    """X11: after a page switch nothing stands by itself where its plan says so; readopt verifies and renews it."""
    done = here(capsysbinary, "compact", "run", *where, *LOW, "--url", model.url)
    name = done.text.split()[-1].partition("@")[0]
    with Ledger.open(where[1]) as ledger:
        ledger.new_generation("c1")
    done = here(capsysbinary, "compact", "readopt", name, *where)
    assert (0, "") == (done.code, done.err)
    with Ledger.open(where[1]) as ledger:
        ledger.edit("c1", "m4", Message("user", "m4", "Changed."))
    done = here(capsysbinary, "compact", "readopt", name, *where)
    assert 2 == done.code
    assert done.err.startswith("context plan rejected: stale-source: ")


@pytest.mark.parametrize(
    ("off", "refused"),
    [("store", {"propose", "accept", "run", "readopt", "prompt"}), ("model", {"accept", "run", "prompt"}),
     ("status", set())],
)  # fmt: skip
def test_R212_steps_revert_independently(
    where: tuple[str, ...], tmp_path: Path, model: Model, capsysbinary: Capture, off: str, refused: set[str]
) -> None:
    """Each part switched off refuses its own commands and no other; no row is lost, and plans go on."""
    here(capsysbinary, "compact", "propose", *where, *LOW)
    answer = tmp_path / "answer.json"
    answer.write_text("{}")
    words: dict[str, list[Any]] = {
        "propose": [], "prompt": [], "accept": [answer, "--run", "0"], "run": ["--url", model.url], "status": [],
        "versions": [], "readopt": ["none"],
    }  # fmt: skip
    found = set()
    for name, extra in words.items():
        done = here(capsysbinary, "compact", name, *extra, *where, *LOW, "--off", off)
        if "compaction_off: " in done.err:
            found.add(name)
            assert 2 == done.code
    assert refused == found
    assert (off == "status") == ("switched off" in here(capsysbinary, "compact", "status", *where, "--off", off).text)
    assert 0 == here(capsysbinary, "plan", *where, *REFERENCE, "--window", "2048", "--off", off).code
    with Ledger.open(where[1]) as ledger:
        assert 13 == len(list(ledger.turns("c1")))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["prompt"], "conversation_not_found: no compaction plan; see planner compact propose"),
        (["accept", "answer.json", "--run", "0"],
         "conversation_not_found: no compaction plan; see planner compact propose"),
        (["prompt", "--plan", "other"], "conversation_not_found: no compaction plan; see planner compact propose"),
        (["readopt", "other"], "conversation_not_found: no such summary version"),
        (["propose", "--policy-version", "unversioned"], "compaction_read_only: policy_version_missing"),
        (["propose", "--goal-id", "g"], "invalid-input: --goal-id goes with --goal"),
        (["propose", "--window", "9"], "invalid-input: --window goes with --bundle"),
        (["propose", "--tail", "0"],
         "invalid-input: --tail has a value of the wrong form; see planner compact propose --help"),
        (["propose", "--bundle", "nowhere"], "bundle_not_found: "),
        (["propose", "--off", "words"],
         "invalid-input: --off has a value of the wrong form; see planner compact propose --help"),
        (["run"], "invalid-input: --url is missing; see planner compact run --help"),
        (["run", "--url", "ftp://x"], "upstream_down: the address is no http or https base URL"),
        (["run", "--url", "http://127.0.0.1:1"], "upstream_down: no answer from the model server"),
        (["accept", "none.json", "--run", "0"], "file_not_readable: none.json does not exist"),
        (["accept", "bytes", "--run", "0"], "invalid-input: $: is not UTF-8"),
    ],
)  # fmt: skip
def test_refusals_are_one_line(
    where: tuple[str, ...], tmp_path: Path, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch,
    arguments: list[str], line: str,
) -> None:  # fmt: skip
    """Exit 2, one line, nothing on stdout, no word of a conversation or a value."""
    monkeypatch.chdir(tmp_path)
    Path("answer.json").write_text(CANARY)
    Path("bytes").write_bytes(b"\xff\xfe")
    done = here(capsysbinary, "compact", *arguments, *where)
    assert (2, b"", 1) == (done.code, done.out, done.err.count("\n"))
    assert done.err.startswith(f"context plan rejected: {line}")
    assert CANARY not in done.err


def test_a_run_that_is_not_there_is_refused(where: tuple[str, ...], tmp_path: Path, capsysbinary: Capture) -> None:
    """Numbers begin at 0 and end before the number of runs."""
    here(capsysbinary, "compact", "propose", *where, *LOW)
    done = here(capsysbinary, "compact", "prompt", *where, "--run", "1")
    assert "context plan rejected: invalid-input: --run names no run of the plan, which has 1\n" == done.err
    (tmp_path / "a.json").write_text("{}")
    done = here(capsysbinary, "compact", "accept", tmp_path / "a.json", *where, "--run", "1")
    assert "context plan rejected: conversation_not_found: no such run of the plan\n" == done.err


def test_an_answer_comes_from_stdin_too(where: tuple[str, ...], capsysbinary: Capture) -> None:
    """`-` is stdin, as everywhere."""
    here(capsysbinary, "compact", "propose", *where, *LOW)
    prompt = json.loads(here(capsysbinary, "compact", "prompt", *where, *LOW).out)
    done = planner("compact", "accept", "-", *where, *LOW, "--run", "0", stdin=extractive(prompt["messages"]).encode())
    assert (0, "") == (done.code, done.err)


def test_no_word_of_a_conversation_is_shown(where: tuple[str, ...], model: Model, capsysbinary: Capture) -> None:
    """R188: every command, drawn and as JSON; only `export` and `prompt` show what the user asked for."""
    shown = ""
    for words in (
        ["compact", "propose"], ["compact", "trial"], ["compact", "run", "--url", model.url], ["compact", "status"],
        ["compact", "versions"],
    ):  # fmt: skip
        for extra in ([], ["--json"]):
            risk = LOW if words[0] == "compact" else ()
            done = here(capsysbinary, *words, *where, *risk, *extra)
            shown += done.text + done.err
    for words in (["verify"], ["stats"]):
        shown += here(capsysbinary, "ledger", *words, "--ledger", where[1]).text
    assert CANARY not in shown
    assert len(shown) > 2000
    assert CANARY.encode() in here(capsysbinary, "ledger", "export", *where).out


def test_what_rests_on_a_source_without_rights_is_in_no_prompt(
    where: tuple[str, ...], tmp_path: Path, capsysbinary: Capture
) -> None:
    """`--rights` names a request; a turn that cites what it does not allow is skipped, and said to be."""
    with Ledger.open(where[1]) as ledger:
        for name, cites in (("x", ("file",)), ("y", ()), ("z", ())):
            messages = [Message("user", f"u{name}", f"About {name}?"),
                        Message("assistant", f"a{name}", f"{CANARY} of {name}.", citation_ids=cites)]  # fmt: skip
            ledger.append("c1", f"t{name}", messages, state="completed")
    rights = tmp_path / "rights.json"
    rights.write_text(json.dumps({"claims": {"tenant": "acme"}}), encoding="utf-8")
    plan = here(capsysbinary, "compact", "propose", *where, *LOW, "--tail", "2", "--rights", rights, "--json").json
    assert [{"id": "turn/tx", "reason": "source_revoked"}] == [
        {key: one[key] for key in ("id", "reason")} for one in plan["skipped"]
    ]
    prompts = here(capsysbinary, "compact", "prompt", *where, *LOW, "--rights", rights)
    assert (True, False) == (bool(prompts.out), f"{CANARY} of x".encode() in prompts.out)
    rights.write_text("[", encoding="utf-8")
    refused = here(capsysbinary, "compact", "propose", *where, "--rights", rights)
    assert (2, True) == (refused.code, "invalid-input" in refused.err)


def test_a_boundary_at_the_first_message_is_shown(tmp_path: Path, capsysbinary: Capture) -> None:
    """R146, R149: sequence 0 is a boundary like any other."""
    with Ledger.open(tmp_path / "a.db") as ledger:
        for at in range(3):
            messages = [Message("user", f"u{at}", "Paint."), Message("assistant", f"a{at}", "Yes.")]
            ledger.append("c1", f"t{at}", messages, state="completed")
        ledger.retain("c1", 1, "30-days")
    done = here(capsysbinary, "compact", "status", "--ledger", tmp_path / "a.db", "--conversation", "c1")
    assert "originals up to sequence 0 were purged" in done.text


def test_a_run_that_waits_is_named_and_not_counted(where: tuple[str, ...], capsysbinary: Capture) -> None:
    """`0` read as none."""
    assert 0 == here(capsysbinary, "compact", "propose", *where, *LOW).code
    status = here(capsysbinary, "compact", "status", *where)
    assert (0, True) == (status.code, status.text.rstrip().endswith("runs waiting: run 0")), status.text
