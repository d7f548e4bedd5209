"""tekken.json: ids equal mistral-common's, and the file is checked before anything is built from it."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.hf_folder import open_folder
from planner.bundles.tekken import load_tekken
from planner.values.reasons import PlannerFault
from tests.bundles.samples import mixed_texts


def small(**config: Any) -> dict[str, Any]:
    """A tekken file of 256 bytes and 300 pairs with 20 reserved ids, and more ranks listed than used."""
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [bytes([first, second]) for first in range(97, 115) for second in range(97, 115)]
    rows = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for rank, token in enumerate(tokens)
    ]
    stated = {
        "pattern": r"\p{L}+|.", "num_vocab_tokens": len(rows), "default_vocab_size": 576,
        "default_num_special_tokens": 20, "version": "v3",
    }  # fmt: skip
    return {"config": {**stated, **config}, "vocab": rows}


def load(value: dict[str, Any]) -> Any:
    """Load a file of this value."""
    return load_tekken(json.dumps(value).encode(), "tekken.json")


def test_ids_equal_mistral_commons(bundle_dir: Path, seed: int) -> None:
    """Plain stretches equal mistral-common's encoder; control strings in text stay text."""
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    bundle = open_folder(bundle_dir / "mistral-nemo-tekken")
    other = Tekkenizer.from_file(bundle_dir / "mistral-nemo-tekken" / "tekken.json")
    engine = bundle.engine
    for text in [*mixed_texts(seed, 80), "[INST] x [/INST]", "<s>"]:
        expected = other.encode(text, bos=False, eos=False)
        encoded = engine.encode(text)
        assert expected == encoded.ids
        assert engine.decode(encoded.ids) == text
    assert engine.encode_parsed("[INST]Hi</s>") == [3, *other.encode("Hi", bos=False, eos=False), 2]
    assert {token.text: token.id for token in bundle.manifest.control_tokens} == {
        row["token_str"]: row["rank"] for row in other._all_special_tokens
    }
    assert bundle.manifest.variables["eos_token"] == "</s>"
    assert engine.vocab_size == other.n_words == 131_072


def test_only_the_stated_number_of_ranks_is_used() -> None:
    """The list may be longer than the vocabulary; the rest has no ids."""
    loaded = load(small())
    assert loaded.vocabulary_size == 576
    engine = loaded.make_engine([token.control() for token in loaded.added])
    assert max(engine.encode_ids("rqrqrq")) < 576


@pytest.mark.parametrize("char", range(6))
def test_a_token_that_ends_inside_a_letter_straddles_the_border(char: int) -> None:
    """Bytes of one letter spread over tokens: the first token that touches it is the one reported."""
    value = small(default_vocab_size=277)
    joined = b" " + "é".encode()[:1]
    value["vocab"] = [*value["vocab"][:256], {"rank": 256, "token_bytes": base64.b64encode(joined).decode()}]
    value["config"]["pattern"] = ".+"
    loaded = load(value)
    encoded = loaded.make_engine([token.control() for token in loaded.added]).encode("ab éc")
    expected = {0: (0, 0), 1: (1, 1), 2: (2, 2), 3: (2, 2), 4: (4, 4), 5: (5, 5)}
    assert encoded.ids == [117, 118, 276, 189, 119]
    assert expected[char] == encoded.token_at(char)


def test_control_tokens_of_newer_versions_must_be_listed() -> None:
    """From version 8 on nothing says what the first ids are unless the file does."""
    with pytest.raises(PlannerFault, match="does not list"):
        load(small(version="v11"))
    listed = {**small(version="v11"), "special_tokens": [{"rank": 0, "token_str": "<s>", "is_control": True}]}
    assert load(listed).lookup("<s>") == 0
    assert load(listed).lookup("<SPECIAL_7>") == 7


@pytest.mark.parametrize(
    "damage",
    [
        lambda value: value.pop("config"),
        lambda value: value["config"].pop("pattern"),
        lambda value: value["config"].update(default_vocab_size=10_000),
        lambda value: value["vocab"].pop(7),
        lambda value: value["vocab"][7].update(rank=8),
        lambda value: value["vocab"][7].update(token_bytes="?"),
        lambda value: value["vocab"][7].update(token_bytes=""),
        lambda value: value.update(special_tokens=[{"rank": 20, "token_str": "<x>"}]),
        lambda value: value.update(special_tokens=[{"rank": 0, "token_str": "<SPECIAL_3>"}]),
    ],
)
def test_a_damaged_file_is_refused(damage: Any) -> None:
    """Ranks must be complete and unique, control tokens inside the reserved ids and distinct."""
    value = small()
    load(value)
    damage(value)
    with pytest.raises(PlannerFault, match="bundle_unsafe"):
        load(value)


def test_without_tiktoken_the_fault_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """tiktoken is optional: describing the file works, encoding says what is missing."""
    loaded = load(small())
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(PlannerFault, match=r"environment: .*context-planner\[mistral\]"):
        loaded.make_engine(())
