"""The corpora of summariser answers are complete, well formed, and what their hand-written sources make."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.compaction.corpus import make, text
from tests.compaction.corpus.kinds import KINDS

FIELDS = {
    "runs": ["run", "language", "risk", "material", "turns"],
    "adversarial": ["case", "run", "kind", "label", "verdict", "reason", "output"],
    "honest": ["case", "run", "language", "verdict", "output"],
}
SIX = {"goal", *text.LISTS.values()}
ABSENT = frozenset({
    "number_not_cited", "number_of_another_message", "unit_not_cited", "file_not_cited",
    "owner_not_cited",
})  # fmt: skip
"""Kinds whose new phrase must stand in no cited message, letter for letter."""


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (text.HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def _words(run: dict[str, Any]) -> dict[str, str]:
    messages = [message for turn in run["turns"] for message in turn["messages"]]
    return {
        f"m{place}": message.get("text") or message.get("toolResult", {}).get("text", "")
        for place, message in enumerate(messages, start=1)
    }


def _strict(output: str) -> Any:
    """Parse an answer, in one code fence or bare; refuse repeated keys and what is no number."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(pairs) == len(dict(pairs))
        return dict(pairs)

    fenced = re.fullmatch(r"```json\n(.*)\n```", output, re.DOTALL)
    return json.loads(fenced[1] if fenced else output, object_pairs_hook=once, parse_constant=pytest.fail)


@pytest.mark.parametrize("name", ["runs", "adversarial", "honest"])
def test_files_are_what_the_sources_make(name: str) -> None:
    """Each committed file equals the generator's output, and its fields stand in the agreed order."""
    assert make.files()[f"{name}.jsonl"] == (text.HERE / f"{name}.jsonl").read_text(encoding="utf-8")
    assert [FIELDS[name]] == [list(fields) for fields in {tuple(row) for row in _rows(name)}]


def test_every_risk_material_and_language_has_one_run() -> None:
    """Twenty-four runs are the full table of three languages, two risks and four materials, 3 to 8 turns each."""
    runs = _rows("runs")
    table = Counter((run["language"], run["risk"], run["material"]) for run in runs)
    assert (24, 24, 1) == (len(runs), len(table), max(table.values()))
    assert [] == [run["run"] for run in runs if not 3 <= len(run["turns"]) <= 8]


def test_ids_are_unique_over_all_runs() -> None:
    """No two runs, turns, messages, calls or cases share an id, and no mark is listed twice in a run."""
    runs = _rows("runs")
    turns = [turn for run in runs for turn in run["turns"]]
    messages = [message for turn in turns for message in turn["messages"]]
    ids = [run["run"] for run in runs] + [turn["id"] for turn in turns] + [message["id"] for message in messages]
    ids += [call["id"] for message in messages for call in message.get("toolCalls", ())]
    ids += [row["case"] for row in _rows("adversarial") + _rows("honest")]
    ids += [mark["constraintId"] for turn in turns for mark in turn["mustPreserve"]]
    ids += [item["id"] for turn in turns for item in turn["openItems"]]
    assert [] == [name for name, count in Counter(ids).items() if count > 1]


def test_every_call_has_its_result_and_every_tool_run_a_long_one() -> None:
    """Results answer the call before them; a run about tool results holds one above 200 characters."""
    for run in _rows("runs"):
        messages = [message for turn in run["turns"] for message in turn["messages"]]
        calls = [call["id"] for message in messages for call in message.get("toolCalls", ())]
        results = [message["toolResult"] for message in messages if "toolResult" in message]
        assert calls == [result["callId"] for result in results]
        longest = max((len(result["text"]) for result in results), default=0)
        assert (run["material"] == "tool_result") == (longest > 200)


def test_counts_of_cases() -> None:
    """There are enough cases, every run has some of both kinds, and no answer is counted twice for a run."""
    adversarial, honest = _rows("adversarial"), _rows("honest")
    languages = Counter(row["language"] for row in honest)
    assert (len(adversarial) >= 320, len(honest) >= 120) == (True, True)
    assert (languages["en"] >= 70, languages["zh"] + languages["mixed"] >= 50) == (True, True)
    for rows in (adversarial, honest):
        assert {run["run"] for run in _rows("runs")} == {row["run"] for row in rows}
    assert [] == [key for key, n in Counter((r["run"], r["output"]) for r in adversarial + honest).items() if n > 1]


def test_every_kind_is_listed_with_its_label() -> None:
    """A case carries label, verdict and reason of its kind; each listed kind has three cases but the heaviest."""
    adversarial = _rows("adversarial")
    assert [] == [r["case"] for r in adversarial if KINDS[r["kind"]] != (r["label"], r["verdict"], r["reason"])]
    counts = Counter(row["kind"] for row in adversarial)
    assert set(KINDS) == set(counts)
    assert ["too_many_bytes"] == [kind for kind, count in counts.items() if count < 3]
    assert {"structural", "semantic"} == {row["label"] for row in adversarial}


def test_honest_answers_are_strict_json_and_name_messages_marks_and_items() -> None:
    """An honest answer has the six keys, cites known messages, and echoes every mark and open item of its run."""
    runs = {run["run"]: run for run in _rows("runs")}
    for row in _rows("honest"):
        made, turns = _strict(row["output"]), runs[row["run"]]["turns"]
        assert (SIX, True) == (set(made), bool(made["goal"].strip()))
        cited = {source for key in ("decisions", "open_actions", "questions", "evidence") for entry in made[key]
                 for source in entry.get("sources", ())}  # fmt: skip
        assert set() == cited - set(_words(runs[row["run"]]))
        marks = [mark["constraintId"] for turn in turns for mark in turn["mustPreserve"]]
        assert sorted(marks) == sorted(entry["id"] for entry in made["constraints"])
        items = {item["id"]: item["status"] for turn in turns for item in turn["openItems"]}
        assert items == {entry["id"]: entry["status"] for entry in made["open_actions"] if "id" in entry}


def test_honest_excerpts_and_owners_stand_in_cited_messages() -> None:
    """Excerpts and owners of honest answers are pieces of a message that the entry cites."""
    words = {run["run"]: _words(run) for run in _rows("runs")}
    for row in _rows("honest"):
        made, said = _strict(row["output"]), words[row["run"]]
        for entry in (entry for key in ("decisions", "open_actions", "evidence") for entry in made[key]):
            cited = [said[source] for source in entry.get("sources", said)]
            for piece in (entry[key] for key in ("excerpt", "owner") if key in entry):
                assert any(piece in message for message in cited), (row["case"], piece)


def test_honest_decisions_cite_a_user_and_risky_ones_can_be_traced() -> None:
    """A decision cites a user message; for risky code and disputes it and each fact has an excerpt or a reference."""
    runs = {run["run"]: run for run in _rows("runs")}
    for row in _rows("honest"):
        run, made = runs[row["run"]], _strict(row["output"])
        roles = [message["role"] for turn in run["turns"] for message in turn["messages"]]
        for entry in made["decisions"]:
            assert "user" in {roles[int(source[1:]) - 1] for source in entry["sources"]}, row["case"]
        if run["risk"] == "high" and run["material"] in {"code", "dispute"}:
            facts = made["decisions"] + made["evidence"]
            assert [] == [entry for entry in facts if not {"excerpt", "archive_ref"} & set(entry)]


def _phrases() -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield (kind, edits, new phrase, cited messages) of every one-field edit of a literal."""
    words, good = {run["run"]: _words(run) for run in _rows("runs")}, make.base()
    for name in make.EDITS:
        for (kind,), lines in text.blocks(name, "#"):
            for run, edits in (line.split(" | ", 1) for line in lines):
                found = re.fullmatch(r"(\w)(\d*)(?:\.owner (.+)| .+ => (.+))", edits)
                if found and kind in ABSENT:
                    made = text.edited(good[run], edits)
                    entry = made[text.LISTS[found[1]]][int(found[2]) - 1] if found[2] else {}
                    cited = [words[run][source] for source in entry.get("sources", words[run])]
                    yield kind, edits, found[3] or found[4], cited


def test_what_is_called_absent_is_absent() -> None:
    """The new number, unit, file or owner of such a case stands in no message that its entry cites."""
    phrases = list(_phrases())
    assert set(ABSENT) == {kind for kind, _, _, _ in phrases}
    assert [] == [edits for _, edits, phrase, cited in phrases if any(phrase in message for message in cited)]


def test_semantic_cases_hold_no_number_that_is_not_cited() -> None:
    """What structure cannot see holds no new digits: each stands in a cited message, or in the run for the goal."""
    words = {run["run"]: _words(run) for run in _rows("runs")}
    for row in _rows("adversarial"):
        if row["label"] != "semantic":
            continue
        made, said = _strict(row["output"]), words[row["run"]]
        for entry in (entry for key in ("decisions", "open_actions", "questions", "evidence") for entry in made[key]):
            cited = " ".join(said[source] for source in entry.get("sources", said))
            assert [] == [n for n in re.findall(r"\d[\d.,:]*\d|\d", entry["text"]) if n not in cited], row["case"]
