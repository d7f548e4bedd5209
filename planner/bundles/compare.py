"""Two bundles beside each other: what differs in each part, and what that does to ids and counts (R172, R180)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from planner.bundles.bundle import FolderBundle
from planner.bundles.part_costs import part_cost_to_json
from planner.bundles.sample_counts import SampleCount, conversations
from planner.values.bundle import Adapter, Engine, Manifest
from planner.values.profile import TemplateProfile

_TEMPLATE_FILES = (".jinja", "config.json")
_NOT_COMPARED = frozenset({"template_digest", "normalisations", "template_literals", "probe_renders"})
"""Fields of a profile that follow from others or from the template's text."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two bundles, with its sample conversations."""

    bundle: FolderBundle
    samples: tuple[SampleCount, ...]

    @property
    def manifest(self) -> Manifest:
        """The bundle's manifest."""
        return self.bundle.manifest

    @property
    def profile(self) -> TemplateProfile | None:
        """The measured profile, None for a bundle without a template."""
        return None if self.manifest.template_digest is None else self.bundle.profile


def compare(first: Side, second: Side) -> dict[str, Any]:
    """Return the whole difference as JSON types: `same` and figures of each part, first bundle first.

    Raises what loading and measuring the bundles raise.
    """
    texts = [_named(row, first, second) for row in _texts(first.bundle.engine, second.bundle.engine)]
    samples = [
        _named(_sample(one, other), first, second) for one, other in zip(first.samples, second.samples, strict=True)
    ]
    return {
        "schemaVersion": "1.0",
        "modelBundleIds": [first.manifest.id, second.manifest.id],
        "bundleDigests": [first.manifest.digest, second.manifest.digest],
        "same": first.manifest.digest == second.manifest.digest,
        "parts": {
            "tokenizer": _tokenizer(first, second, texts),
            "addedTokens": _tokens(_added(first), _added(second)),
            "controlTokens": _tokens(_controls(first), _controls(second)),
            "template": _template(first, second),
            "variables": _mapping(first.manifest.variables, second.manifest.variables),
            "profile": _profile(first.profile, second.profile),
            "adapter": _pair(_adapter(first.manifest.adapter), _adapter(second.manifest.adapter)),
            "runtime": _runtime(first.manifest, second.manifest),
            "context": _pair(first.manifest.context_tokens, second.manifest.context_tokens),
            "encodeMode": _pair(first.manifest.encode_mode, second.manifest.encode_mode),
            "partCosts": _pair(*([part_cost_to_json(cost) for cost in one.manifest.parts] for one in (first, second))),
            "framing": _mapping(_framing(first.manifest), _framing(second.manifest)),
            "baseModel": _pair(first.manifest.base_model, second.manifest.base_model),
        },
        "texts": texts,
        "conversations": samples,
    }


def _pair(first: Any, second: Any) -> dict[str, Any]:
    return {"same": first == second, "values": [first, second]}


def _tokenizer(first: Side, second: Side, texts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    manifests = [first.manifest, second.manifest]
    # Templates and configurations have parts of their own; what is left is the tokenizer.
    files = [
        sorted((one.path, one.sha256) for one in manifest.files if not one.path.endswith(_TEMPLATE_FILES))
        for manifest in manifests
    ]
    return {
        "same": files[0] == files[1] and manifests[0].tokenizer_format == manifests[1].tokenizer_format,
        "formats": [manifest.tokenizer_format for manifest in manifests],
        "entries": [side.bundle.parts[0].vocabulary_size for side in (first, second)],
        "textsWithOtherIds": sum(not row["same"] for row in texts),
    }


def _texts(first: Engine, second: Engine) -> list[dict[str, Any]]:
    """Encode every text of the samples by itself: what the tokenizers alone make of it."""
    rows = []
    for row in conversations():
        found = [
            [index for text in _contents(row["messages"]) for index in engine.encode(text).ids]
            for engine in (first, second)
        ]
        rows.append({"id": row["id"], **_ids(found[0], found[1])})
    return rows


def _named(row: dict[str, Any], first: Side, second: Side) -> dict[str, Any]:
    """Say what the ids at the first different place stand for; the texts are our own."""
    ids = row["idsThere"] or [None, None]
    engines = (first.bundle.engine, second.bundle.engine)
    texts = [None if one is None else engine.decode([one]) for one, engine in zip(ids, engines, strict=True)]
    return row | {"tokensThere": texts if row["idsThere"] else None}


def _contents(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    return [message["content"] for message in messages if isinstance(message["content"], str)]


def _ids(first: Sequence[int], second: Sequence[int]) -> dict[str, Any]:
    """Compare two lists of ids: equal or not, their lengths, and the first place where they part."""
    place = next((at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other), None)
    if place is None and len(first) != len(second):
        place = min(len(first), len(second))
    at = None if place is None else [ids[place] if place < len(ids) else None for ids in (first, second)]
    return {"same": place is None, "tokens": [len(first), len(second)], "firstDifferent": place, "idsThere": at}


def _sample(first: SampleCount, second: SampleCount) -> dict[str, Any]:
    if first.reason is not None or second.reason is not None:
        tokens = [None if one.reason is not None else len(one.ids) for one in (first, second)]
        found: dict[str, Any] = {"same": False, "tokens": tokens, "firstDifferent": None, "idsThere": None}
        found["same"] = first.reason == second.reason
    else:
        found = _ids(first.ids, second.ids)
    return {
        "id": first.id,
        **found,
        "samePrompt": first.prompt_sha256 == second.prompt_sha256,
        "reasons": [first.reason, second.reason],
    }


def _added(side: Side) -> dict[str, tuple[Any, ...]]:
    return {
        one.text: (one.id, one.special, one.lstrip, one.rstrip, one.single_word, one.normalized)
        for one in side.bundle.parts[0].added
    }


def _controls(side: Side) -> dict[str, tuple[Any, ...]]:
    return {one.text: (one.id, one.lstrip, one.rstrip) for one in side.manifest.control_tokens}


def _tokens(first: Mapping[str, tuple[Any, ...]], second: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Compare tables from a token's text to its id and flags."""
    both = [text for text in first if text in second]
    return {
        "same": first == second,
        "onlyFirst": [text for text in first if text not in second],
        "onlySecond": [text for text in second if text not in first],
        "otherIds": [text for text in both if first[text][0] != second[text][0]],
        "otherFlags": [text for text in both if first[text][1:] != second[text][1:]],
    }


def _template(first: Side, second: Side) -> dict[str, Any]:
    sources: list[list[str]] = [
        [] if side.manifest.template_digest is None else side.bundle.template_source.splitlines()
        for side in (first, second)
    ]
    blocks = difflib.SequenceMatcher(a=sources[0], b=sources[1], autojunk=False).get_opcodes()
    changed = [block for block in blocks if block[0] != "equal"]
    return {
        **_pair(first.manifest.template_digest, second.manifest.template_digest),
        "linesRemoved": sum(end - begin for _, begin, end, _, _ in changed),
        "linesAdded": sum(end - begin for _, _, _, begin, end in changed),
        "firstChangedLines": None if not changed else [changed[0][1] + 1, changed[0][3] + 1],
    }


def _mapping(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    changed = {
        name: [first.get(name), second.get(name)]
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    }
    return {"same": not changed, "changed": changed}


def _profile(first: TemplateProfile | None, second: TemplateProfile | None) -> dict[str, Any]:
    if first is None or second is None:
        return {"same": first is second, "changed": {}}
    fields = [{key: value for key, value in asdict(one).items() if key not in _NOT_COMPARED} for one in (first, second)]
    return _mapping(fields[0], fields[1])


def _adapter(adapter: Adapter | None) -> dict[str, Any] | None:
    if adapter is None:
        return None
    return {"files": [[one.path, one.size_bytes, one.sha256] for one in adapter.files], "scale": adapter.scale}


def _framing(manifest: Manifest) -> dict[str, Any]:
    """Return what a manifest states about the making of a prompt beside the template's text."""
    return {
        "templateEntry": manifest.template_entry,
        "concessions": sorted(manifest.concessions),
        "rewrites": sorted(manifest.rewrites),
        "prefixSpace": manifest.prefix_space,
    }


def _runtime(first: Manifest, second: Manifest) -> dict[str, Any]:
    rules = [{} if one.runtime is None else one.runtime.identity() for one in (first, second)]
    return {
        "values": [None if one.runtime is None else one.runtime.label for one in (first, second)],
        **_mapping(rules[0], rules[1]),
    }
