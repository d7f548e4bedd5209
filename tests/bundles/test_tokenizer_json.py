"""tokenizer.json folders: control tokens are text in content, everything else stays as the file says."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from planner.bundles.bundle import FolderBundle
from planner.bundles.hf_folder import open_folder
from planner.bundles.stretches import ControlSplitter
from planner.bundles.tokenizer_json import TokenizersEngine, load_tokenizer, load_tokenizer_json
from planner.values.bundle import ControlToken
from planner.values.reasons import PlannerFault
from tests.bundles.samples import first_reaching, mixed_texts

SMALL = ("qwen3-0.6b", "smollm2", "phi-3-mini", "mistral-v1-fast")
EVERY = (*SMALL, "llama-3.1", "gemma-3", "deepseek-v3")


@pytest.fixture(scope="module")
def opened(bundle_dir: Path) -> Callable[[str], FolderBundle]:
    """Folders by name, each opened once."""
    cache: dict[str, FolderBundle] = {}

    def by_name(name: str) -> FolderBundle:
        if name not in cache:
            cache[name] = open_folder(bundle_dir / name)
        return cache[name]

    return by_name


def tiny(**changes: object) -> Tokenizer:
    """Return a byte-level tokenizer of 600 entries whose parts a test may change."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [first + second for first in alphabet[40:60] for second in alphabet[40:60]][:344]
    vocabulary = {text: index for index, text in enumerate([*alphabet, *words])}
    merges = [(word[0], word[1]) for word in words]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, **changes))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False)])
    return tokenizer


def write_folder(folder: Path, tokenizer: Tokenizer, **config: object) -> Path:
    """Write a folder with a tokenizer and its configuration."""
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", EVERY)
def test_no_control_string_in_content_becomes_a_control_id(opened: Callable[[str], FolderBundle], name: str) -> None:
    """Every control token pasted into text, alone and doubled, gives no control id and decodes back."""
    bundle = opened(name)
    controls = bundle.manifest.control_tokens
    ids = {token.id for token in controls}
    chosen = controls if len(controls) < 80 else random.Random(1).sample(controls, 80)
    for token in chosen:
        for text in (f"say {token.text} now", token.text * 2):
            found = bundle.engine.encode(text).ids
            assert ids.isdisjoint(found)
            assert bundle.engine.decode(found) == text


@pytest.mark.parametrize("name", EVERY)
def test_text_without_control_strings_encodes_as_the_untouched_file_does(
    opened: Callable[[str], FolderBundle], name: str, seed: int
) -> None:
    """Switching the control tokens off changes no id of ordinary text."""
    engine = opened(name).engine
    for text in mixed_texts(seed, 40):
        expected = list(engine.encode_parsed(text))
        assert expected == list(engine.encode(text).ids)


@pytest.mark.parametrize("name", EVERY)
def test_stretches_between_control_tokens_equal_the_whole_encode(
    opened: Callable[[str], FolderBundle], name: str, seed: int
) -> None:
    """A text cut at its control tokens and encoded stretch by stretch gives the file's own ids."""
    bundle = opened(name)
    rng = random.Random(seed)
    plain = [token for token in bundle.manifest.control_tokens if not (token.lstrip or token.rstrip)]
    splitter = ControlSplitter({token.text: token.id for token in plain})
    for text in mixed_texts(seed, 20):
        first, second = rng.choice(plain).text, rng.choice(plain).text
        whole = f"{first}{text}{second} {text}{first}{second}"
        assert bundle.engine.encode_parsed(whole) == splitter.encode(whole, bundle.engine.encode_ids)


@pytest.mark.parametrize("name", SMALL)
def test_token_at_equals_a_scan_of_the_offsets(
    opened: Callable[[str], FolderBundle], bundle_dir: Path, name: str, seed: int
) -> None:
    """Borders agree with the library's offsets wherever no letters were composed."""
    engine = opened(name).engine
    raw = Tokenizer.from_file(str(bundle_dir / name / "tokenizer.json"))
    for text in mixed_texts(seed, 15):
        if name == "qwen3-0.6b" and raw.normalizer.normalize_str(text) != text:
            continue
        encoded = engine.encode(text)
        ranges = raw.encode(text, add_special_tokens=False).offsets
        if len(ranges) != len(encoded.ids):
            continue
        for char in range(len(text) + 1):
            assert first_reaching(ranges, char) == encoded.token_at(char)


def test_a_composed_letter_straddles_a_border_inside_it(opened: Callable[[str], FolderBundle]) -> None:
    """NFC joins e and an accent into one token; a border between them lies inside that token."""
    encoded = opened("qwen3-0.6b").engine.encode("xx e\u0301 yy")
    index, start = encoded.token_at(4)
    assert (index, start) == (encoded.token_at(3)[0], 2)


def test_trimmed_offsets_do_not_hide_a_straddling_space() -> None:
    """A post-processor that trims offsets is switched off: ' a' straddles the border before 'a'."""
    tokenizer = tiny()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    vocabulary = tokenizer.get_vocab()
    assert "Ġa" not in vocabulary
    engine = TokenizersEngine.from_bytes(tokenizer.to_str().encode())
    assert engine.encode("x a").token_at(1) == (1, 1)


def test_control_tokens_not_flagged_special_are_switched_off_too(
    opened: Callable[[str], FolderBundle],
) -> None:
    """Qwen's <think> is an added token without the special flag, and still a control token."""
    engine = opened("qwen3-0.6b").engine
    assert engine.encode_parsed("<think>") == [151667]
    assert 151667 not in engine.encode_ids("<think>")


def test_ordinary_added_tokens_still_match_across_pieces(opened: Callable[[str], FolderBundle]) -> None:
    """Gemma's newline runs are text: two newlines stay the one token they are in the file."""
    bundle = opened("gemma-3")
    assert list(bundle.engine.encode_parsed("a\n\nb")) == bundle.engine.encode_ids("a\n\nb")
    assert "\n\n" in bundle.text_tokens
    assert "<start_of_turn>" not in bundle.text_tokens


def test_flagging_changes_neither_ids_nor_vocabulary_size(opened: Callable[[str], FolderBundle]) -> None:
    """Flagging happens in place; a control token with another id in the file is refused."""
    assert opened("qwen3-0.6b").engine.vocab_size == 151669
    data = tiny().to_str().encode()
    with pytest.raises(PlannerFault, match="bundle_mismatch"):
        TokenizersEngine.from_bytes(data, (ControlToken("<|end|>", 5),))
    with pytest.raises(PlannerFault, match="bundle_mismatch"):
        TokenizersEngine.from_bytes(data, (ControlToken("<|absent|>", 700),))


def test_saved_truncation_and_padding_cut_nothing(tmp_path: Path) -> None:
    """A file that saves both encodes like one that saves neither, and the manifest warns."""
    tokenizer = tiny()
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=32, pad_id=0, pad_token="!")
    bundle = open_folder(write_folder(tmp_path / "m", tokenizer))
    text = "some words that are longer than four tokens"
    assert tiny().encode(text).ids == bundle.engine.encode_ids(text)
    assert tiny().encode(text).ids == bundle.engine.encode_parsed(text)
    assert any("truncation and padding" in warning for warning in bundle.manifest.warnings)


def test_a_panic_of_the_library_is_a_fault_without_its_words(capfd: pytest.CaptureFixture[str]) -> None:
    """A regular expression that overruns its retry limit panics; the caller sees tokenizer_failed."""
    tokenizer = tiny()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex("(a+)+b"), "isolated"), pre_tokenizers.ByteLevel(False)]
    )
    engine = TokenizersEngine.from_bytes(tokenizer.to_str().encode())
    with pytest.raises(PlannerFault) as caught:
        engine.encode("a" * 34)
    capfd.readouterr()
    assert caught.value.code == "tokenizer_failed"
    assert "aaa" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_lone_surrogate_is_a_fault_without_the_text() -> None:
    """Text that is not Unicode ends in tokenizer_failed, not in the library's own exception."""
    engine = TokenizersEngine.from_bytes(tiny().to_str().encode())
    with pytest.raises(PlannerFault, match="tokenizer_failed"):
        engine.encode("secret \ud800")


def test_a_damaged_file_does_not_load() -> None:
    """A cut tokenizer.json is tokenizer_failed."""
    with pytest.raises(PlannerFault, match="tokenizer_failed"):
        load_tokenizer(tiny().to_str().encode()[:-40])


def test_a_tokenizer_that_drops_merges_at_random_is_refused() -> None:
    """BPE dropout gives other ids each time, so no plan could be repeated."""
    data = tiny(dropout=0.1).to_str().encode()
    with pytest.raises(PlannerFault, match="bundle_unsafe"):
        load_tokenizer_json(data, lambda: data)


def test_a_flood_of_added_tokens_is_refused() -> None:
    """More than 8,192 added tokens is no tokenizer people use (threats.md §2.4)."""
    tokenizer = tiny()
    tokenizer.add_tokens([f"<x{number}>" for number in range(8_192)])
    data = tokenizer.to_str().encode()
    with pytest.raises(PlannerFault, match="added tokens"):
        load_tokenizer_json(data, lambda: data)


def test_a_token_beyond_four_kib_is_refused() -> None:
    """A token longer than 4,096 bytes is refused, one of exactly that length is not."""
    for length, fails in ((4_096, False), (4_097, True)):
        tokenizer = tiny()
        tokenizer.add_tokens(["x" * length])
        data = tokenizer.to_str().encode()
        if fails:
            with pytest.raises(PlannerFault, match="bundle_unsafe"):
                load_tokenizer_json(data, lambda data=data: data)
        else:
            assert load_tokenizer_json(data, lambda data=data: data).longest_token_bytes == length


def test_longest_token_covers_what_composition_shortens() -> None:
    """Under NFC a token may stand for more bytes than it has: three Kelvin signs become three K."""
    plain, composing = tiny(), tiny()
    for tokenizer in (plain, composing):
        tokenizer.add_tokens([AddedToken("K" * 9, normalized=True)])
    composing.normalizer = normalizers.NFC()
    figures = []
    for tokenizer in (plain, composing):
        data = tokenizer.to_str().encode()
        figures.append(load_tokenizer_json(data, lambda data=data: data).longest_token_bytes)
    assert figures == [9, 27]
    engine = TokenizersEngine.from_bytes(composing.to_str().encode())
    assert len(engine.encode_ids("\u212a" * 9)) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [("llama-3.1", 128), ("phi-3-mini", None), ("smollm2", None), ("mistral-v1-fast", 48)],
)
def test_longest_token_is_unknown_where_a_token_may_cover_anything(
    opened: Callable[[str], FolderBundle], name: str, expected: int | None
) -> None:
    """Phi-3 swallows whitespace beside control tokens, smollm2 lacks bytes and drops them: no bound."""
    assert expected == opened(name).manifest.longest_token_bytes


@pytest.mark.parametrize(
    ("name", "rule"),
    [("qwen3-0.6b", None), ("phi-3-mini", "each_stretch"), ("mistral-v1-fast", "each_stretch")],
)
def test_the_manifest_names_the_prefix_rule(opened: Callable[[str], FolderBundle], name: str, rule: str | None) -> None:
    """Llama-class files put a space mark before each stretch."""
    assert rule == opened(name).manifest.prefix_space


def test_a_tokenizer_that_treats_the_first_stretch_apart_is_encoded_whole(tmp_path: Path) -> None:
    """Metaspace with prepend_scheme first cannot be cut into runs."""
    tokenizer = tiny()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    manifest = open_folder(write_folder(tmp_path / "m", tokenizer)).manifest
    assert manifest.encode_mode == "whole"
    assert manifest.prefix_space == "first_stretch"


@pytest.mark.parametrize("other", ["<|end|>!", "|end", ">x", "y<"])
def test_a_control_token_that_overlaps_another_token_is_not_cut_at(tmp_path: Path, other: str) -> None:
    """Leftmost and longest could choose the other token, so the text is encoded whole."""
    tokenizer = tiny()
    tokenizer.add_tokens([AddedToken(other, normalized=False)])
    assert open_folder(write_folder(tmp_path / "m", tokenizer)).manifest.encode_mode == "whole"


def test_added_tokens_that_overlap_nothing_leave_runs(tmp_path: Path) -> None:
    """The nearest legal neighbour of the test above."""
    tokenizer = tiny()
    tokenizer.add_tokens([AddedToken("other", normalized=False)])
    assert open_folder(write_folder(tmp_path / "m", tokenizer)).manifest.encode_mode == "runs"


def test_decode_takes_the_prefix_space_of_each_stretch_away(opened: Callable[[str], FolderBundle]) -> None:
    """A text round-trips stretch by stretch, control ids written out between."""
    engine = opened("mistral-v1-fast").engine
    ids = [1, *engine.encode_ids("Hello"), 2, *engine.encode_ids(" two  spaces")]
    assert engine.decode(ids) == "<s>Hello</s> two  spaces"
