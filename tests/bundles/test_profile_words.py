"""A profile in words: every measured loss is named once, and figures of use are counted and planned."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from planner.bundles import profile_words as words
from planner.bundles.open import open_bundle
from planner.bundles.typical import KINDS, language_costs, samples, tiers_of, turns_in_tiers
from planner.planner import Planner
from planner.values.bundle import Tier
from planner.values.plan import Plan
from planner.values.profile import ParsedString, TemplateProfile, Trims
from tests.cli.support import ROOT, planner

PLAIN = TemplateProfile("")
FIELDS = sorted({field for fields in words.PARTS for field in fields})
VERDICTS = st.sampled_from(("kept", "dropped", "raises"))


def test_a_template_that_keeps_everything_has_nothing_to_name() -> None:
    """Silence is for what is whole."""
    assert (words.dropped(PLAIN), words.raised(PLAIN), words.rewritten(PLAIN)) == ((), (), ())


@pytest.mark.parametrize("field", FIELDS)
def test_each_loss_is_named(field: str) -> None:
    """One part that is lost is one entry, and only under its own verdict."""
    lost = replace(PLAIN, **{field: "dropped"})
    assert ((words.PARTS[field,],), ()) == (words.dropped(lost), words.raised(lost))
    refused = replace(PLAIN, **{field: "raises"})
    assert ((), (words.PARTS[field,],)) == (words.dropped(refused), words.raised(refused))


def test_what_fares_alike_has_one_name() -> None:
    """A role that is lost everywhere, and calls with their results, are one entry each."""
    lost = replace(PLAIN, developer="dropped", late_developer="dropped", tool_call="raises", tool_result="raises")
    assert (("developer text",), ("calls and results",)) == (words.dropped(lost), words.raised(lost))


@given(st.fixed_dictionaries(dict.fromkeys(FIELDS, VERDICTS)))
def test_no_loss_is_left_out_and_none_is_named_twice(verdicts: dict[str, str]) -> None:
    """Spelled out again, the names are exactly the fields of that verdict; richer calls may be left to plain ones."""
    profile = replace(PLAIN, **verdicts)
    for verdict, named in (("dropped", words.dropped(profile)), ("raises", words.raised(profile))):
        fields = [field for parts, text in words.PARTS.items() if text in named for field in parts]
        spoken = {"parallel_calls", "text_beside_call"} if verdicts["tool_call"] == verdict else set()
        assert sorted({field for field, found in verdicts.items() if found == verdict} - spoken) == sorted(fields)


def test_trims_rules_and_parsed_strings_are_spelled_out() -> None:
    """The words of a profile with every kind of rewriting."""
    white = Trims(" \t\n\r\u00a0", " \t\n\r\u00a0")
    profile = replace(
        PLAIN,
        trims={"assistant": white, "user": white, "system": Trims("\n"), "tool": Trims("", " ")},
        parsed_strings=(ParsedString("user", "<a>", "</a>"), ParsedString("assistant", "<a>", "</a>")),
        call_ids="nine_alphanumerics",
        text_arguments="object",
        null_content="raises",
        old_reasoning="dropped",
        uses_clock=True,
        splice_depth=2,
    )  # fmt: skip
    assert words.rewritten(profile) == (
        "trims white space at both ends of assistant/user texts",
        "trims newlines at the start of system texts",
        "trims spaces at the end of tool texts",
        "prints the date",
    )
    assert words.call_rules(profile) == ("ids of nine letters or digits", "arguments as an object", "no null content")
    assert words.parsed(profile) == ("<a> .. </a> in user/assistant",)
    assert (words.reasoning(profile), words.splice(profile)) == ("stripped", "2")
    assert words.call_rules(replace(profile, tool_call="dropped")) == ()


def test_samples_are_written_in_the_scripts_they_name() -> None:
    """At least eight scripts; most letters of a sample belong to the script of its row."""
    scripts = {"Kana and Han": ("HIRAGANA", "KATAKANA", "CJK"), "Han": ("CJK",)}
    seen = set()
    for row in samples()["languages"]:
        letters = [unicodedata.name(letter, "") for letter in row["text"] if letter.isalpha()]
        prefixes = scripts.get(row["script"], (row["script"].upper(),))
        own = sum(name.startswith(prefixes) for name in letters)
        if letters and own > 0.9 * len(letters):
            seen.add(row["script"])
        else:
            assert row["script"] in {"digits", "data", "code", "symbols"}
    assert len(seen) >= 12


def test_costs_are_the_tokenizers_own() -> None:
    """Tokens of every sample are those of the file, read by the library alone."""
    bundle = open_bundle("reference")
    own = Tokenizer.from_file(str(ROOT / "model_bundles" / "reference" / "tokenizer.json"))
    texts = [row["text"] for row in samples()["languages"]]
    expected = [(len(text), len(own.encode(text, add_special_tokens=False).ids)) for text in texts]
    assert expected == [(cost.characters, cost.tokens) for cost in language_costs(bundle.engine)]


def _tokens(count: int, kind: str) -> int:
    """Count a chat of so many turns and the next question, as a message list and without any limit."""
    said, asked = samples()["talk"][kind], samples()["talk"]["short"]["question"]
    messages: list[dict[str, object]] = []
    for number in range(count):
        messages.append({"role": "user", "content": said["question"]})
        if kind == "tool":
            function = {"name": said["tool"], "arguments": said["arguments"]}
            call = {"id": f"c{number}", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": said["result"]})
        messages.append({"role": "assistant", "content": said["answer"]})
    messages.append({"role": "user", "content": asked})
    tools = samples()["tools"] if kind == "tool" else None
    answer = Planner("reference").plan(messages=messages, tools=tools, max_input_tokens=10**9)
    assert isinstance(answer, Plan)
    return len(answer.ids)


@pytest.mark.parametrize("kind", KINDS)
def test_one_more_turn_would_not_fit(kind: str) -> None:
    """The figure is the largest: the same chat with one more turn is over the budget."""
    limit = 1_500
    found = {row.kind: row.turns for row in turns_in_tiers(Planner("reference").plan, "reference", (limit,))}
    manifest = open_bundle("reference").manifest
    reserve = 512 if manifest.reserved_output_tokens is None else manifest.reserved_output_tokens
    margin = 1 if manifest.safety_margin_tokens is None else manifest.safety_margin_tokens
    turns = found[kind]
    assert turns is not None
    assert _tokens(turns, kind) <= limit - reserve - margin < _tokens(turns + 1, kind)


def test_a_window_too_small_for_the_question_has_the_refusal() -> None:
    """No figure is made up where not even the next question fits."""
    rows = turns_in_tiers(Planner("reference").plan, "reference", (514,))
    assert {(None, "context_policy_overflow")} == {(row.turns, row.reason) for row in rows}


def test_tiers_are_the_manifests_else_the_usual_ones_below_its_context() -> None:
    """Nothing beyond what the bundle states is promised."""
    manifest = replace(open_bundle("reference").manifest, tiers=(), context_tokens=None)
    assert tiers_of(manifest) == (4_096, 8_192, 32_768)
    assert tiers_of(replace(manifest, context_tokens=8_192)) == (4_096, 8_192)
    assert tiers_of(replace(manifest, context_tokens=1_000)) == (1_000,)
    tiers = (Tier("b", 900), Tier("a", 500), Tier("c", 900))
    assert tiers_of(replace(manifest, tiers=tiers)) == (500, 900)


def test_the_command_prints_what_it_has_as_json() -> None:
    """The table a person reads holds every figure of the JSON."""
    tree = planner("bundle", "profile", "reference", "--json").json
    text = planner("bundle", "profile", "reference").text
    assert tree["bundleDigest"] == open_bundle("reference").manifest.digest
    assert tree["template"]["oldReasoning"] in text
    for row in tree["languages"]:
        assert f"{row['tokensPerCharacter']:.2f}" in next(
            line for line in text.splitlines() if line.startswith(row["language"])
        )
    drawn = {line.rsplit("  ", 1)[0]: line.split() for line in text.splitlines()}
    for title, kind in (("question and answer", "short"), ("long question", "long"), ("question, call", "tool")):
        expected = [f"{row['turns']:,}" for row in tree["turns"] if row["kind"] == kind]
        assert expected == next(cells[-len(expected) :] for name, cells in drawn.items() if name.startswith(title))


def test_an_unknown_bundle_is_refused_in_one_line() -> None:
    """As for every command over a bundle."""
    done = planner("bundle", "profile", "no-such-bundle")
    assert (done.code, done.err.startswith("context plan rejected: bundle_not_found: ")) == (2, True)


def test_a_folder_without_a_template_has_its_languages_alone(tmp_path: Path) -> None:
    """It can count, and that is what is said of it."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((ROOT / "model_bundles" / "reference" / name).read_bytes())
    tree = planner("bundle", "profile", tmp_path, "--json").json
    assert (tree["template"], tree["turns"], len(tree["languages"])) == (None, [], len(samples()["languages"]))
    assert "can only count" in planner("bundle", "profile", tmp_path).text
