"""`planner explain`: every id has a fate, a plan is checked, another window is compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.values.passage import Claims, Passage, Source
from planner.values.request import CurrentRequest, PlanRequest
from planner.values.turn import Message, Turn
from planner.wire.dump import dump_request
from planner.wire.parse import parse_plan
from tests.cli.support import REQUEST, planner, small_request
from tests.support.records import CONVERSATION, record_of


@pytest.fixture(scope="module")
def demo_plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo planned for the embedded bundle, as JSON in a file, its receipt beside it."""
    folder = tmp_path_factory.mktemp("explain")
    done = planner("plan", REQUEST, "--bundle", "reference", "--json", "--receipt", folder / "receipt.json")
    assert done.code == 0
    (folder / "plan.json").write_bytes(done.out)
    return folder / "plan.json"


def test_every_id_of_the_request_has_a_fate(demo_plan: Path) -> None:
    """Kept or removed with a reason: each turn, passage, tool and rule stands in one of the two."""
    rows = planner("explain", demo_plan, "--json").json
    request = json.loads(REQUEST.read_bytes())
    fates = {row["id"]: row["fate"] for row in rows}
    turns = [turn["id"] for turn in request["turns"]]
    for row in rows:
        if "lastId" in row:
            first, last = (turns.index(row[key].partition("/")[2]) for key in ("id", "lastId"))
            fates |= {f"turn/{one}": "removed" for one in turns[first : last + 1] if f"turn/{one}" not in fates}
    wanted = {f"turn/{one}" for one in turns}
    wanted |= {f"passage/{one['citationId']}" for one in request["passages"]}
    wanted |= {f"tool/{one['id']}" for one in request["tools"]} | {f"policy/{one['id']}" for one in request["policy"]}
    assert wanted - fates.keys() == set()
    assert all(row["reason"] for row in rows if row["fate"] == "removed")


def test_a_plan_and_its_receipt_explain_alike(demo_plan: Path) -> None:
    """The receipt alone is enough to say what happened."""
    from_plan = planner("explain", demo_plan, "--json")
    from_receipt = planner("explain", demo_plan.parent / "receipt.json", "--json")
    assert (0, from_plan.json) == (from_receipt.code, from_receipt.json)
    drawn = planner("explain", demo_plan)
    assert "agrees with the" in drawn.text
    assert "A cancelled turn" in drawn.text


def test_tampered_ids_are_refused(demo_plan: Path, tmp_path: Path) -> None:
    """One changed id, or one that is missing, no longer agrees with the receipt."""
    tree = json.loads(demo_plan.read_bytes())
    tree["ids"][7] += 1
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(tree), encoding="utf-8")
    done = planner("explain", changed)
    assert (done.code, done.text) == (2, "")
    assert "are not the ids the receipt was sealed over" in done.err
    tree["ids"].pop()
    changed.write_text(json.dumps(tree), encoding="utf-8")
    assert planner("explain", changed).err.startswith("context plan rejected: account_incomplete: ")


def test_an_account_without_a_field_is_refused(demo_plan: Path, tmp_path: Path) -> None:
    """R37 on the command line: a missing figure is not taken for 0."""
    tree = json.loads((demo_plan.parent / "receipt.json").read_bytes())
    del tree["account"]["toolTokens"]
    path = tmp_path / "receipt.json"
    path.write_text(json.dumps(tree), encoding="utf-8")
    done = planner("explain", path)
    assert done.err == "context plan rejected: account_incomplete: $.account.toolTokens: is not a measured figure\n"


def test_another_window_shows_what_would_change(demo_plan: Path) -> None:
    """The difference equals that of the two plans made apart."""
    arguments = ("--window", "4096", "--request", REQUEST, "--bundle", "reference")
    found = planner("explain", demo_plan, *arguments, "--json")
    small = planner("plan", REQUEST, "--bundle", "reference", "--window", "4096", "--json")
    before, after = parse_plan(demo_plan.read_bytes()).kept, parse_plan(small.out).kept
    assert found.code == 0
    assert [one for one in before if one not in after] == found.json["leaves"]
    assert found.json["comes"] == []
    assert {"line": "limit", "before": 8192, "after": 4096} in found.json["tokens"]
    drawn = planner("explain", demo_plan, *arguments)
    assert found.json["leaves"][0] in drawn.text


def test_a_window_too_small_is_a_refusal_with_its_line(demo_plan: Path) -> None:
    """Planning again may refuse; the exit code and the line are those of a plan."""
    done = planner("explain", demo_plan, "--window", "700", "--request", REQUEST, "--bundle", "reference")
    assert done.code == 2
    assert done.err.startswith("context plan rejected: context_policy_overflow: ")


def test_a_recorded_refusal_is_explained(tmp_path: Path) -> None:
    """A refusal's JSON is a record like a plan's."""
    done = planner("plan", "-", "--window", "50", "--json", stdin=small_request())
    path = tmp_path / "refusal.json"
    path.write_bytes(done.out)
    shown = planner("explain", path)
    assert (shown.code, shown.err) == (0, "")
    assert "remedy" in shown.text


@pytest.mark.parametrize("data", [b"{}", b"[]", b"canary", b'{"receipt": 1}', b'{"maxOutputTokens": 1}', b"[" * 5000])
def test_what_is_no_record_is_one_line(data: bytes) -> None:
    """A wrong file is named by its first flaw, without its text."""
    done = planner("explain", "-", stdin=data)
    assert (done.code, done.out, done.err.count("\n")) == (2, b"", 1)
    assert "canary" not in done.err


def test_a_request_is_no_record_and_is_called_none(tmp_path: Path) -> None:
    """Who gives the request where the plan belongs reads what is wrong, not that an account is missing."""
    path = tmp_path / "request.json"
    path.write_bytes(small_request())
    done = planner("explain", path)
    assert "context plan rejected: invalid-input: $: is neither a plan, a refusal nor a receipt\n" == done.err
    assert 2 == done.code


def test_another_conversation_is_not_compared(tmp_path: Path) -> None:
    """Every turn would seem to leave or to come back; a record without a conversation is compared with any."""
    ours, other, unnamed = (tmp_path / name for name in ("ours.json", "other.json", "unnamed.json"))
    ours.write_bytes(small_request(conversationId="c1"))
    other.write_bytes(small_request(conversationId="c2"))
    unnamed.write_bytes(small_request())
    plan = tmp_path / "plan.json"
    plan.write_bytes(planner("plan", ours, "--json").out)
    done = planner("explain", plan, "--request", other)
    assert (2, b"") == (done.code, done.out)
    assert done.err.endswith("--request is of another conversation than the record\n")
    assert [0, 0] == [planner("explain", plan, "--request", one).code for one in (ours, unnamed)]


def test_options_without_a_request_are_refused(demo_plan: Path) -> None:
    """Another window needs the request: a receipt holds no text to plan again."""
    assert "name the request with --request" in planner("explain", demo_plan, "--window", "4096").err


def test_it_says_which_summary_stood_for_which_turns(tmp_path: Path) -> None:
    """A used one with its interval, a refused one with its cause and ids; text of neither."""
    turns = tuple(
        Turn(f"t{n}", n, "completed", (Message("user", id=f"u{n}", text="canary " * 80),)) for n in range(1, 5)
    )
    records = (record_of("s1", turns[:2], "canary one"), record_of("s2", turns[2:3], "canary two", policy_version="p9"))
    request = PlanRequest("reference", CurrentRequest(text="and now?"), conversation_id=CONVERSATION, turns=turns,
                          summaries=records, max_input_tokens=520, reserved_output_tokens=0)  # fmt: skip
    path = tmp_path / "receipt.json"
    assert planner("plan", "-", "--receipt", path, stdin=dump_request(request)).code == 0
    drawn = planner("explain", path)
    assert ["s1@1", "1 to 2", "used"] == _row(drawn.text, "s1@1")[:3]
    assert ["s2@1", "3 to 3", "stale-source", "policy_version"] == _row(drawn.text, "s2@1")[:4]
    rows = {row["id"]: row for row in planner("explain", path, "--json").json}
    assert [1, 2] == rows["summary/s1"]["covers"]
    assert ("stale-source", "policy_version") == (rows["summary/s2"]["reason"], rows["summary/s2"]["cause"])
    assert "canary" not in drawn.text


def _row(text: str, first: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(first))
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_exclusions_are_explained_by_reason_and_never_by_id(tmp_path: Path) -> None:
    """One row a reason with its count; the passages that took part have their fates."""
    claims, press = Claims("acme", ("manuals",), ("press",)), Source("press", 1)
    passages = (
        Passage("mine", "Mine.", 0.5, "acme", "manuals", press),
        Passage("foreign", "Other.", 1.0, "other", "manuals", press),
        Passage("old", "Old.", 1.0, "acme", "manuals", press, valid_to="2020-01-01T00:00:00Z"),
    )  # fmt: skip
    request = PlanRequest("reference", CurrentRequest(id="q", text="What holds?"), passages=passages, claims=claims,
                          now="2030-01-01T00:00:00Z", max_input_tokens=2_000)  # fmt: skip
    (tmp_path / "request.json").write_bytes(dump_request(request))
    done = planner("plan", tmp_path / "request.json", "--receipt", tmp_path / "receipt.json")
    assert 0 == done.code
    rows = planner("explain", tmp_path / "receipt.json", "--json").json
    assert [("expired", 1), ("unauthorised", 1)] == [
        (row["reason"], row["count"]) for row in rows if row["fate"] == "excluded"
    ]
    drawn = planner("explain", tmp_path / "receipt.json").text
    assert "not shown by id" in drawn
    assert "passage/mine" in {row["id"] for row in rows}
    assert "foreign" not in drawn + json.dumps(rows) + done.text
