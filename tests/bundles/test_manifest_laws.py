"""bundle.json <-> Manifest as laws over generated manifests: nothing is lost, and what can change ids has a digest."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.bundles.digest import bundle_digest
from planner.bundles.manifest import CONCESSIONS, PREFIX_RULES, ManifestFile, Origin, dump_manifest, parse_manifest
from planner.bundles.provenance import Provenance
from planner.values.bundle import (
    Adapter,
    ControlToken,
    EncodeMode,
    FileEntry,
    KvGeometry,
    Manifest,
    Tier,
    TokenizerFormat,
)
from planner.values.field_rules import VERSION_PATTERN
from planner.values.part_cost import DurationRule, FlatRule, PartCost, PatchRule, TileRule
from planner.values.runtime import MEANINGS, Runtime, ValidWhen
from planner.values.runtime_rows import RUNTIMES

NAME = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,12}", fullmatch=True)
SHA = st.text("0123456789abcdef", min_size=64, max_size=64)
LINE = st.text(st.characters(min_codepoint=32, exclude_categories=("C", "Z")), min_size=1, max_size=12)
LABEL = st.from_regex(VERSION_PATTERN, fullmatch=True).filter(lambda label: len(label) < 40)
TEXT = st.text(max_size=12)
COUNT = st.integers(0, (1 << 31) - 1)
SOME = st.integers(1, 1_000)
LABELS = {
    "id", "digest", "template_version", "context_tokens", "tiers", "reserved_output_tokens", "safety_margin_tokens",
    "compact_at", "longest_token_bytes", "origin", "licence", "kv", "app_versions", "template_fallback", "warnings",
}  # fmt: skip
"""Fields that name or bound something; the rest can change ids."""


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy that may give nothing."""
    return st.none() | strategy


def files(name: st.SearchStrategy[str] = NAME) -> st.SearchStrategy[tuple[FileEntry, ...]]:
    """Return lists of files, none named twice."""
    one = st.builds(FileEntry, name, st.integers(0, 1 << 20), SHA)
    return st.lists(one, min_size=1, max_size=3, unique_by=lambda entry: entry.path).map(tuple)


@st.composite
def runtimes(draw: st.DrawFn) -> Runtime:
    """Draw a reviewed engine with what a deployment may state."""
    stated = {
        "output_limit": maybe(SOME), "total_limit": maybe(SOME), "min_prefill_tokens": SOME, "prefill_multiple": SOME,
        "reported_meaning": st.sampled_from(MEANINGS), "reported_when": st.sampled_from(get_args(ValidWhen)),
    }  # fmt: skip
    profile = RUNTIMES[draw(st.sampled_from(sorted(RUNTIMES)))]
    for name, strategy in stated.items():
        if draw(st.booleans()):
            profile = replace(profile, **{name: draw(strategy)})
    slots = draw(st.integers(1, 8))
    return Runtime(profile, draw(maybe(NAME)), slots, draw(maybe(st.integers(slots, 100_000))), draw(SOME))


def costs(tokens: tuple[ControlToken, ...]) -> st.SearchStrategy[tuple[PartCost, ...]]:
    """Return costs of parts over these control tokens."""
    if not tokens:
        return st.just(())
    place = st.sampled_from([token.text for token in tokens])
    sizes = st.tuples(SOME, SOME).map(sorted)
    picture = (
        st.builds(FlatRule, SOME)
        | st.builds(TileRule, SOME, SOME, SOME, SOME)
        | st.builds(lambda px, ends, base: PatchRule(px, ends[0], ends[1], base), SOME, maybe(sizes).map(
            lambda ends: ends or (None, None)), SOME)
    )  # fmt: skip
    sound = st.builds(
        lambda tokens, per, how, ends: DurationRule(tokens, per, how, *ends),
        SOME, SOME, st.sampled_from(("up", "down", "nearest")), sizes,
    )  # fmt: skip
    image = st.builds(PartCost, st.just("image"), place, picture, TEXT, TEXT)
    audio = st.builds(PartCost, st.just("audio"), place, sound | st.builds(FlatRule, SOME), TEXT, TEXT)
    return st.tuples(maybe(image), maybe(audio)).map(lambda both: tuple(one for one in both if one is not None))


GEOMETRY = st.integers(1, 4).flatmap(
    lambda layers: st.builds(
        KvGeometry, st.just(layers), st.tuples(*[st.integers(0, 16)] * layers), SOME, SOME, maybe(SOME), st.none(),
        SOME, SOME, st.integers(0, layers),
    )
)  # fmt: skip


@st.composite
def manifests(draw: st.DrawFn) -> ManifestFile:
    """Draw what a bundle.json can hold, whole."""
    entries = draw(files())
    controls = tuple(
        draw(st.lists(
            st.builds(ControlToken, TEXT.filter(bool), COUNT, st.booleans(), st.booleans()),
            max_size=4, unique_by=(lambda token: token.text, lambda token: token.id),
        ))
    )  # fmt: skip
    context = draw(maybe(st.integers(2_000, 100_000)))
    tier = st.builds(Tier, NAME, SOME, maybe(st.just("2026-11-30")))
    template = draw(st.booleans())
    origin = draw(maybe(st.builds(Origin, NAME, NAME, NAME, maybe(NAME))))
    adapter = draw(maybe(st.builds(Adapter, files(), st.floats(-4, 4))))
    places = st.builds(Provenance, path=LINE, overlaid=st.lists(NAME, max_size=2).map(tuple))
    provenance = draw(maybe(places))
    if provenance is not None and adapter is not None:
        provenance = replace(provenance, adapter_path=draw(maybe(LINE)))
    manifest = Manifest(
        id=draw(NAME), digest="", tokenizer_format=draw(st.sampled_from(get_args(TokenizerFormat))), files=entries,
        template_digest=draw(SHA) if template else None, template_entry=draw(NAME) if template else None,
        template_version=draw(maybe(LABEL)) if template else None, base_model=draw(maybe(LINE)), adapter=adapter,
        runtime=draw(maybe(runtimes())), context_tokens=context,
        tiers=tuple(draw(st.lists(tier, max_size=2, unique_by=lambda one: one.id))),
        reserved_output_tokens=draw(maybe(SOME)), safety_margin_tokens=draw(maybe(COUNT)),
        compact_at=draw(maybe(st.floats(0.6, 0.7))), encode_mode=draw(st.sampled_from(get_args(EncodeMode))),
        prefix_space=draw(maybe(st.sampled_from(sorted(PREFIX_RULES)))),
        variables=draw(st.dictionaries(st.sampled_from(("bos_token", "eos_token")), TEXT)),
        concessions=tuple(draw(st.lists(st.sampled_from(sorted(CONCESSIONS)), max_size=2))),
        rewrites=tuple(draw(st.lists(NAME, max_size=2))), control_tokens=controls,
        longest_token_bytes=draw(maybe(SOME)),
        origin=None if origin is None else f"{origin.distribution}=={origin.version}", licence=draw(maybe(LINE)),
        kv=draw(maybe(GEOMETRY)), parts=draw(costs(controls)), warnings=tuple(draw(st.lists(LINE, max_size=2))),
    )  # fmt: skip
    inside = frozenset(entry.path for entry in entries if origin is not None and draw(st.booleans()))
    file = entries[0].path if template else None
    return ManifestFile(replace(manifest, digest=bundle_digest(manifest)), origin, inside, file, provenance)


@given(manifests())
def test_a_manifest_is_read_back_as_it_was_written(made: ManifestFile) -> None:
    """Every field of it, its digest too; written again it is the same bytes."""
    data = dump_manifest(made)
    assert made == parse_manifest(data)
    assert data == dump_manifest(parse_manifest(data))


@given(manifests(), manifests())
def test_the_digest_is_of_all_that_can_change_ids_and_of_nothing_else(one: ManifestFile, other: ManifestFile) -> None:
    """Field by field: taken from another manifest it makes another digest, unless it is a label or a bound."""
    plain = one.manifest
    for field in fields(Manifest):
        found = getattr(other.manifest, field.name)
        changed = bundle_digest(replace(plain, **{field.name: found})) != plain.digest
        if field.name in LABELS:
            assert not changed, field.name
        elif _parts_of(found) != _parts_of(getattr(plain, field.name)):
            assert changed, field.name


def _parts_of(value: Any) -> Any:
    """Return what makes a field's value: the order of names, tokens and files is not part of it."""
    return sorted(map(repr, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("name", sorted(LABELS))
def test_a_label_is_a_field(name: str) -> None:
    """A new field of a manifest is a label by a decision, never by being forgotten."""
    assert name in {field.name for field in fields(Manifest)}
