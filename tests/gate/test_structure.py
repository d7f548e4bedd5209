"""The structural validator, row by row (V1..V12) and beyond the script (X17..X22, X67)."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planner.gate.plan_file import judge_arguments, judge_bytes, judge_path
from planner.gate.structure import OWN_MESSAGES, SCRIPT_MESSAGES
from tests.gate.plan_files import SOUND, changed, dumped, with_item


def said(file: Any, *, compat: bool = False) -> str | None:
    """Return the message a file gets."""
    return judge_bytes(dumped(file), compat=compat).message


def test_validator_usage_v1() -> None:
    """No argument and two arguments are both a question of usage."""
    for arguments in ((), ("a.json", "b.json")):
        assert "usage: validate_context_plan.py plan.json" == judge_arguments(arguments).message


def test_validator_missing_file_v2(tmp_path: Path) -> None:
    """A file that is not there is missing."""
    assert "plan file is missing" == judge_path(tmp_path / "none.json").message


def test_validator_directory_v2(tmp_path: Path) -> None:
    """A directory is no plan file."""
    assert "plan file is missing" == judge_path(tmp_path).message


def test_validator_bad_json_v3() -> None:
    """The cause is the parser's, which names a place and never a piece of the file."""
    assert "cannot parse plan: Expecting value: line 1 column 1 (char 0)" == judge_bytes(b"secret").message
    marked = judge_bytes(b"\xef\xbb\xbf{}").message
    assert marked is not None
    assert marked.startswith("cannot parse plan: Unexpected UTF-8 BOM")


@pytest.mark.parametrize("limit", [True, "200", ..., None, 50, 49, 2.5e2])
def test_validator_limits_v4(limit: Any) -> None:
    """A limit that is a bool, a string, absent, equal to the reserve or below it."""
    assert "token limits are invalid" == said(changed(maxInputTokens=limit), compat=True)
    assert "token limits are invalid" == said(changed(maxInputTokens=limit))
    # Not only because it is too small: a bool is no number of tokens, on either side.
    assert "token limits are invalid" == said(changed(reservedOutputTokens=True), compat=True)


@pytest.mark.parametrize("items", [..., None, [], {}, "t1", {"id": "t1"}])
def test_validator_items_v5(items: Any) -> None:
    """Items are a list that holds something."""
    assert "items must be a non-empty list" == said(changed(items=items))


@pytest.mark.parametrize("wrong", [..., None, "t2"])
def test_validator_ids_v6(wrong: Any) -> None:
    """An id that is absent, null or used twice."""
    assert "item ids must be present and unique" == said(with_item(1, id=wrong))


def test_validator_removed_still_kept_v7() -> None:
    """A removed id may not stand among the items, whichever of the two names says that it was removed (X17)."""
    message = "removed items still appear in the retained plan"
    assert message == said(changed(removedIds=["t1"]), compat=True)
    assert message == said(changed(removedIds=["r1"]))
    for removed in (["t1"], [{"id": "t1", "layer": "history", "reason": "budget"}]):
        assert message == said(changed(removed=removed))
        assert said(changed(removed=removed), compat=True) is None


def test_validator_immutable_removed_v8() -> None:
    """The three cases of X19: kept and removed at once is V7, declared immutable V8, a required policy V10."""
    assert "an immutable item was removed" == said(changed(removed=[{"id": "p9", "layer": "immutable_policy"}]))
    assert "an immutable item was removed" == said(changed(removed=[{"id": "q9", "layer": "required_request"}]))
    assert "removed items still appear in the retained plan" == said(changed(removedIds=["p1"]))
    gone = changed(removedIds=["p1"], items=SOUND["items"][1:])
    assert "required policy items are missing" == said(gone)
    assert said(changed(removed=[{"id": "t9", "layer": "history"}])) is None


def test_validator_sequence_reversed_v9() -> None:
    """Sequences go up."""
    assert "message sequence is invalid or reordered" == said(with_item(1, sequence=25), compat=True)


def test_validator_sequence_duplicate_v9() -> None:
    """The script takes equal neighbours, the prose does not (X18)."""
    twice = with_item(1, sequence=20)
    assert "message sequence is invalid or reordered" == said(twice)
    assert said(twice, compat=True) is None


@pytest.mark.parametrize("wrong", [True, "10", 1.0, []])
def test_validator_sequence_bool_or_string_v9(wrong: Any) -> None:
    """A sequence is a whole number."""
    assert "message sequence is invalid or reordered" == said(with_item(1, sequence=wrong), compat=True)


def test_validator_items_without_sequence_ok() -> None:
    """Framing, tools and schema have none."""
    assert said(with_item(1, sequence=...)) is None
    assert said(with_item(1, sequence=None)) is None


def test_validator_policy_missing_v10() -> None:
    """A required policy that no item is."""
    assert "required policy items are missing" == said(changed(requiredPolicyIds=["p1", "p2"]))


def test_validator_policy_in_wrong_layer_v10() -> None:
    """A required policy has to stand in its layer."""
    assert "required policy items are missing" == said(with_item(0, layer="history"))


def test_validator_constraint_lost_v11() -> None:
    """A required constraint that no item carries."""
    assert "a summary lost required constraints" == said(with_item(1, constraintIds=["C2"]))


def test_validator_over_budget_v12() -> None:
    """Items and reserve beyond the limit by one."""
    assert "retained context exceeds the input budget" == said(with_item(1, tokens=91))


def test_validator_equal_to_limit_accepted() -> None:
    """Items and reserve that fill the limit (X3)."""
    assert said(with_item(1, tokens=90)) is None
    assert said(with_item(1, tokens=90), compat=True) is None


def test_validator_accept_line_and_exit_0(tmp_path: Path) -> None:
    """One line on stdout and exit 0; one line on stderr and exit 2."""
    path = tmp_path / "plan.json"
    for file, expected in (
        (SOUND, (0, "context plan accepted: 4 items\n", "")),
        (changed(items=[]), (2, "", "context plan rejected: items must be a non-empty list\n")),
    ):
        path.write_bytes(dumped(file))
        ended = subprocess.run(
            [sys.executable, "-m", "planner.cli.main", "verify", str(path)], capture_output=True, text=True, check=False
        )
        assert expected == (ended.returncode, ended.stdout, ended.stderr)


def test_validator_check_order() -> None:
    """A file that breaks every row gets V4, and each row mended uncovers the next."""
    file = {
        "maxInputTokens": 1, "reservedOutputTokens": 5, "items": [], "removedIds": ["b"], "requiredPolicyIds": ["p"],
        "requiredConstraintIds": ["C"],
    }  # fmt: skip
    told = [said(file)]
    a: dict[str, Any] = {"id": "a", "layer": "x", "sequence": 2, "tokens": 99, "constraintIds": []}
    b: dict[str, Any] = {"id": "a", "layer": "y", "sequence": 1, "tokens": 1, "constraintIds": []}
    for mend in (
        {"maxInputTokens": 50}, {"items": [a, b]}, {"items": [a, b | {"id": "b"}]}, {"removedIds": []},
        {"items": [a, b | {"id": "b", "sequence": 3}]}, {"requiredPolicyIds": []}, {"requiredConstraintIds": []},
        {"items": [a | {"tokens": 44}, b | {"id": "b", "sequence": 3}]},
    ):  # fmt: skip
        file |= mend
        told.append(said(file))
    rows = [message for message in SCRIPT_MESSAGES if message != "an immutable item was removed"]
    assert [*rows, None] == told


def test_R203_validator_generation_consistent() -> None:
    """One item of another generation is enough."""
    assert "generation is inconsistent" == said(with_item(2, generation=4))
    assert said(with_item(2, generation=3)) is None


def test_validator_generation_inconsistent() -> None:
    """The plan's generation is a whole number where it stands; a file without one may pass (X22)."""
    for wrong in (True, "3", 3.0, None):
        assert "generation is inconsistent" == said(changed(generation=wrong))
    assert said(changed(generation=...)) is None
    assert said(with_item(2, generation=4), compat=True) is None


def test_validator_non_positive_budget() -> None:
    """A limit below one and a negative reserve, which the script takes; a reserve of nothing is allowed (X20)."""
    for file in (changed(reservedOutputTokens=-1), changed(maxInputTokens=-1, reservedOutputTokens=-200)):
        assert "token limits are invalid" == said(file)
    assert said(changed(reservedOutputTokens=-1), compat=True) is None
    assert said(changed(reservedOutputTokens=0)) is None


@pytest.mark.parametrize("wrong", [..., None, -1, 0.5, 20.0, True, "20", [], 1e999])
def test_validator_item_tokens_absent_negative_fractional_nan(wrong: Any) -> None:
    """An item that nobody measured is no proof of a budget (X20)."""
    expected = "retained context exceeds the input budget" if wrong == 1e999 else "item tokens are invalid"
    assert expected == said(with_item(2, tokens=wrong))


MALFORMED = {
    b"[]": "plan must be an object",
    b'"text"': "plan must be an object",
    b"null": "plan must be an object",
    b"\xff\xfe": "cannot parse plan: not UTF-8",
    b'{"maxInputTokens": 1, "a": 1, "a": 2}': "token limits are invalid",
    b"[" * 100_000: "cannot parse plan: nested too deep",
    b'{"a": ' + b"9" * 5000 + b"}": "cannot parse plan: a number has too many digits",
}


def test_validator_malformed_never_tracebacks() -> None:
    """Everything on which the script dies of a traceback is one line (X21)."""
    assert MALFORMED == {data: judge_bytes(data).message for data in MALFORMED}
    cases: list[tuple[dict[str, Any], str]] = [
        (changed(items=[1]), "items must be objects"),
        (changed(items=[SOUND["items"][0], "t1"]), "items must be objects"),
        (changed(removedIds=None), "id lists are invalid"),
        (changed(requiredPolicyIds=[[]]), "id lists are invalid"),
        (changed(requiredConstraintIds=4), "id lists are invalid"),
        (with_item(1, constraintIds=None), "id lists are invalid"),
        (with_item(1, id=[]), "item ids must be present and unique"),
        (with_item(1, layer=[]), "item layer is missing"),
        (with_item(1, tokens="40"), "item tokens are invalid"),
    ]
    for file, message in cases:
        assert (message, message) == (said(file), said(file, compat=True))


def test_what_json_does_not_know_is_not_parsed() -> None:
    """Repeated keys and NaN, which Python's parser takes, end a file that would pass otherwise (X21)."""
    sound = dumped(SOUND)
    assert "cannot parse plan: a key is repeated" == judge_bytes(b'{"note": 1, "note": 2, ' + sound[1:]).message
    assert "cannot parse plan: NaN and Infinity are no numbers" == judge_bytes(b'{"note": NaN, ' + sound[1:]).message
    assert judge_bytes(b'{"note": NaN, ' + sound[1:], compat=True).message is None


def test_a_string_is_no_list_of_ids() -> None:
    """The script reads it letter by letter; the file is refused all the same (X67)."""
    file = changed(requiredConstraintIds="C", items=[{**SOUND["items"][0], "constraintIds": "CD"}])
    assert said(file, compat=True) is None
    assert "id lists are invalid" == said(file)


@pytest.mark.parametrize("layer", [..., None, "", 3])
def test_an_item_names_its_layer(layer: Any) -> None:
    """Any name will do for the file check, none will not (X16, X67)."""
    assert "item layer is missing" == said(with_item(2, layer=layer))
    assert said(with_item(2, layer="something_else")) is None


def test_R199_validator_messages_and_exit_codes() -> None:
    """The table holds: nine messages of the script after the file is read, six of ours, none in both lists."""
    assert 9 == len(SCRIPT_MESSAGES)
    assert 6 == len(OWN_MESSAGES)
    assert set(SCRIPT_MESSAGES).isdisjoint(OWN_MESSAGES)
    assert ("context plan accepted: 4 items", None) == (judge_bytes(dumped(SOUND)).line, said(SOUND))
    assert "context plan rejected: items must be a non-empty list" == judge_bytes(dumped(changed(items=[]))).line


def test_R198_validator_offline_and_text_free(tmp_path: Path) -> None:
    """Judging a file imports no tokenizer, template engine or network, and no message holds a text of the file."""
    path = tmp_path / "plan.json"
    file = copy.deepcopy(SOUND)
    file["note"] = "canary text"
    file["items"][0]["tokens"] = "canary text"
    path.write_bytes(json.dumps(file).encode())
    code = (
        "import sys; from planner.cli.main import run; code = run(['verify', sys.argv[1]]);"
        "heavy = {'tokenizers', 'jinja2', 'sentencepiece', 'numpy', 'pydantic', 'http.client', 'socket'};"
        "bad = heavy & set(sys.modules);"
        "print(sorted(bad), code)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert "[] 2" == ended.stdout.strip()
    assert "context plan rejected: item tokens are invalid" == ended.stderr.strip()
