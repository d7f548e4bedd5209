"""The hostile inputs of threats.md §3 that this version can meet; H01 to H10 are in tests/safety.

Each ends in its code, the next request is served, and no word of the input is in anything that is shown.
"""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.open import open_bundle
from planner.cli.main import run
from planner.planner import Planner
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault
from planner.values.request import CurrentRequest, PlanRequest, TextItem
from planner.values.turn import Message, Turn
from tests.bad_inputs.build_bundles import good_bundle
from tests.threats.support import CANARY, served

MILLION = 1_000_000


@pytest.fixture(scope="module")
def qwen() -> Planner:
    """The default bundle, opened once."""
    return Planner(open_bundle("qwen3-0.6b"))


def ask(text: str = "And now?", **fields: Any) -> PlanRequest:
    """A request of the default bundle with a limit of 4,096 tokens."""
    return PlanRequest("qwen3-0.6b", CurrentRequest(text=text), max_input_tokens=4_096, **fields)


def turn(text: str, number: int = 1) -> Turn:
    """A completed turn whose question is this text."""
    messages = (Message("user", f"u{number}", text), Message("assistant", f"a{number}", "Yes."))
    return Turn(f"t{number}", number, "completed", messages)


def test_H19_a_million_letters_in_the_request_are_not_encoded(qwen: Planner) -> None:
    """More bytes than 4,096 tokens could cover: refused without one encoded character."""
    answer = qwen.plan(ask("a" * MILLION))
    assert isinstance(answer, Refusal)
    assert (answer.outcome, answer.reason) == ("context_policy_overflow", "input_too_large")
    assert answer.diagnostics["characters_encoded"] == 0
    served(qwen)


def test_H20_a_million_digits_in_a_completed_turn_leave_unencoded(qwen: Planner) -> None:
    """The turn is removed as too large; the plan costs what it costs without it."""
    answer = qwen.plan(ask(turns=(turn("7" * MILLION), turn("Is it far?", 2))))
    assert isinstance(answer, Plan)
    assert ("turn/t1", "too_large") in {(entry.id, entry.reason) for entry in answer.removed}
    assert "turn/t2" in answer.kept
    assert int(answer.diagnostics["characters_encoded"]) < 10_000
    served(qwen)


def test_H21_a_policy_above_the_limit_overflows_and_is_not_cut(qwen: Planner) -> None:
    """The account says what cannot move; one token less than the limit is a plan."""
    answer = qwen.plan(ask(policy=(TextItem("p", "be kind " * 5_000),), turns=(turn("x"),)))
    assert isinstance(answer, Refusal)
    assert answer.reason == "context_policy_overflow"
    assert answer.tokens_missing > 0
    assert answer.account is not None
    assert answer.account.policy_tokens > 4_096
    assert isinstance(qwen.plan(ask(policy=(TextItem("p", "be kind " * 500),))), Plan)


REQUESTS: dict[str, tuple[bytes, str]] = {
    "H22 depth": (b"[" * 100_000 + b"]" * 100_000, "$: is nested deeper"),
    "H23 digits": (b'{"maxInputTokens": ' + b"7" * 5_000 + b"}", "$"),
    "H23 NaN": (b'{"passages": [{"relevance": NaN, "text": "kestrel7391"}]}', "$.passages[0].relevance"),
    "H23 duplicate": (b'{"modelBundleId": "a", "modelBundleId": "kestrel7391"}', "$: repeats a key"),
    "H24 surrogate": (b'{"modelBundleId": "a", "request": {"text": "kestrel7391 \\udc00"}}', "$.request.text"),
    "H26 log line": (b'{"modelBundleId": "a", "conversationId": "c\\nINFO kestrel7391"}', "$.conversationId"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_H22_to_H26_a_hostile_document_is_one_line(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """H22, H23, H24, H26: invalid-input with a JSON path, exit 2, and the next command is served."""
    data, path = REQUESTS[name]
    file = tmp_path / "request.json"
    file.write_bytes(data)
    assert run(["plan", str(file), "--bundle", "reference"]) == 2
    shown = capfd.readouterr()
    assert shown.err.startswith(f"context plan rejected: invalid-input: {path}")
    assert shown.err.count("\n") == 1
    assert CANARY not in shown.err + shown.out
    assert "INFO" not in shown.err + shown.out
    assert run(["count", "--text", "hello", "--bundle", "reference"]) == 0


def _template(text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "chat_template.jinja").write_text(text, encoding="utf-8") and None


def _with(addition: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        path = folder / "chat_template.jinja"
        path.write_text(path.read_text(encoding="utf-8") + addition, encoding="utf-8")

    return write


def _splitting(rule: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        path = folder / "tokenizer.json"
        value = json.loads(path.read_text(encoding="utf-8"))
        split = {"type": "Split", "pattern": {"Regex": rule}, "behavior": "Isolated", "invert": False}
        value["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, value["pre_tokenizer"]]}
        path.write_text(json.dumps(value), encoding="utf-8")

    return write


def _linked(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder.parent / "outside.json")
    os.symlink("../outside.json", folder / "tokenizer.json")


MANY, END = "{% for i in range(100000) %}", "{% endfor %}"
FOLDERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "H27": (_template("{{ 'a' * 500000000 }}" + CANARY), "template_rejected"),
    "H27 behind a whole template": (_with("{{ 'a' * 500000000 }}"), "template_rejected"),
    "H28": (_with(MANY + MANY + END + END), "template_rejected"),
    "H28 writing": (_with(MANY + MANY + CANARY + END + END), "template_rejected"),
    "H30": (_with("{% if 'price' in messages[-1].content %}" + CANARY + "{% endif %}"), "template_content_dependent"),
    "H31": (_with("{{ lipsum.__globals__ }}"), "template_rejected"),
    "H32": (_template("{{ raise_exception(messages[0].content ~ '" + CANARY + "') }}"), "template_rejected"),
    "H33": (_splitting("(a+)+b"), "tokenizer_failed"),
    "H33 anchored": (_splitting("^(a+)+$"), "tokenizer_failed"),
    "H36": (_linked, "bundle_path"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_H27_to_H36_a_hostile_folder_is_refused_by_its_code(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H27, H28, H30, H31, H32, H33, H36: at admission, in one line, and another bundle is served."""
    change, code = FOLDERS[name]
    folder = good_bundle(tmp_path, manifest=False)
    change(folder)
    with pytest.raises(PlannerFault) as caught:
        open_bundle(folder)
    assert code == caught.value.code
    assert CANARY not in str(caught.value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for command in (["count", "--text", "a" * 30], ["bundle", "check"]):
        given = [*command, "--bundle", str(folder)] if command[0] == "count" else [*command, str(folder)]
        assert run(given) == 2
        shown = capfd.readouterr()
        assert shown.err.startswith(f"context plan rejected: {code}: ")
        assert shown.err.count("\n") == 1
        assert CANARY not in shown.err + shown.out
    served(Planner("reference"))


def test_H33_a_rule_that_only_a_text_shows_is_a_fault_and_not_a_crash(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two branches that overlap, no nested repetition to be seen: the library gives up, and we say so.

    The library's own trace on stderr cannot be stopped from here; it holds no text.
    """
    folder = good_bundle(tmp_path, manifest=False)
    _splitting("(a|aa)+$")(folder)
    planner = Planner(open_bundle(folder))
    with pytest.raises(PlannerFault, match="tokenizer_failed: the tokenizer failed on a text") as caught:
        planner.plan(messages=[{"role": "user", "content": f"{CANARY}\n{'a' * 40}c"}], max_input_tokens=4_000)
    assert caught.value.__cause__ is None
    shown = capfd.readouterr()
    assert CANARY not in shown.err + shown.out
    served(planner)


def test_H29_a_doubling_that_can_be_seen_is_refused_before_it_runs(tmp_path: Path) -> None:
    """The trigger may be any word: the doubling itself is what is refused. test_template_triggers has the rest."""
    folder = good_bundle(tmp_path, manifest=False)
    doubling = (
        "{% if 'boom' in messages[-1].content %}{% set ns2 = namespace(x='ab') %}{% for i in range(60) %}"
        "{% set ns2.x = ns2.x ~ ns2.x %}{% endfor %}{{ ns2.x }}{% endif %}"
    )
    _with(doubling)(folder)
    with pytest.raises(PlannerFault, match="template_rejected: it has a text that doubles itself"):
        open_bundle(folder)


class _Bomb:
    """Unpickled, it would write a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (self.path, "w")


def test_H37_pickles_and_own_code_are_ignored_by_name(tmp_path: Path) -> None:
    """The folder loads and says what it did not open; the pickle's and the module's canary files do not exist."""
    folder = good_bundle(tmp_path, manifest=False)
    written, ran = tmp_path / "unpickled", tmp_path / "ran"
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Bomb(str(written))))
    (folder / "tokenization_own.py").write_text(f"open({str(ran)!r}, 'w')", encoding="utf-8")
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    config["auto_map"] = {"AutoTokenizer": ["tokenization_own.Own", None]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    bundle = open_bundle(folder)
    served(Planner(bundle))
    told = " ".join(bundle.manifest.warnings)
    for name in ("pytorch_model.bin", "tokenization_own.py", "auto_map"):
        assert name in told
    assert not written.exists()
    assert not ran.exists()
    pickle.loads((folder / "pytorch_model.bin").read_bytes()).close()
    assert written.exists()


def test_H38_a_template_swapped_after_hashing_is_a_mismatch(tmp_path: Path) -> None:
    """With a manifest the changed file is never used; without one the bytes first read stay in force."""
    stated = good_bundle(tmp_path, manifest=True)
    bundle = open_bundle(stated)
    path = stated / "chat_template.jinja"
    path.write_text(path.read_text(encoding="utf-8").replace("message.content", "message['content']"), "utf-8")
    with pytest.raises(PlannerFault, match=r"bundle_mismatch: chat_template\.jinja differs"):
        _ = bundle.template_source
    plain = tmp_path / "plain"
    plain.mkdir()
    folder = good_bundle(plain, manifest=False)
    opened = open_bundle(folder)
    before = opened.template_source
    (folder / "chat_template.jinja").write_text(CANARY, encoding="utf-8")
    assert opened.template_source == before
    served(Planner(opened))


def test_the_request_of_these_tests_is_planned(qwen: Planner) -> None:
    """So that each is refused for its own change."""
    assert isinstance(qwen.plan(ask(turns=(turn("Is it far?"),), policy=(TextItem("p", "Be kind."),))), Plan)
    assert isinstance(qwen.plan(replace(ask(), max_input_tokens=600)), Plan)


EXPECTED = {f"H{number:02d}" for number in (*range(1, 11), *range(19, 25), *range(26, 34), 36, 37, 38)}


def test_every_hostile_input_of_this_version_has_a_test() -> None:
    """By number: in a test's name, or in the id of one of its rows."""
    tests = Path(__file__).resolve().parents[1]
    files = [*(tests / "threats").glob("test_*.py"), *(tests / "safety").glob("test_*.py")]
    named = set(re.findall(r"(?:def test_|^ *\")(H\d\d)(?=[_ \"])", "\n".join(map(_source, files)), re.MULTILINE))
    assert EXPECTED - named == set()


def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")
