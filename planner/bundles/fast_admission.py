"""Whether the fast engine may serve a bundle: the same ids on two megabytes of text, or not at all.

The two merge by different rules that agree on the vocabularies of models; equality is measured, not derived.

The certificate is kept by bundle digest and the versions of both libraries. It holds kitoken's own form of the
tokenizer, so that a later process need not parse the file again.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.bundles.digest import sha256_hex
from planner.bundles.fast_texts import TEXTS_VERSION, classes, of_vocabulary
from planner.bundles.kept import keep, read_kept
from planner.values.bundle import Engine
from planner.values.reasons import PlannerFault

if TYPE_CHECKING:
    from planner.bundles.bundle import FolderBundle
    from planner.bundles.fast_engine import FastEngine

CERTIFICATE_VERSION = "1"
BORDER_TEXTS = 3
"""Texts of each class whose every border is compared as well."""
_SPACE = "\u2581"
_memory: dict[str, Mapping[str, Any]] = {}
_MEMORY_ENTRIES = 8


def fast_engine(bundle: FolderBundle, cache_dir: Path | None) -> FastEngine:
    """Return the fast engine of a bundle, compared with its exact one now or before.

    cache_dir  where certificates are kept between processes; None compares in every process
    Raises environment where the library is absent, engine_not_admitted where another library runs the tokenizer or a
    class of texts has other ids; the class is named.
    """
    key = _key(bundle)
    # What a certificate says holds for the manifest's files; a file that is another one now is refused here.
    bundle.config  # noqa: B018
    kept = _memory.get(key) or _checked(read_kept(cache_dir, f"engine-{key}"))
    if kept is None:
        kept = _compared(bundle)
        keep(cache_dir, f"engine-{key}", kept)
    if len(_memory) >= _MEMORY_ENTRIES:
        _memory.clear()
    _memory[key] = kept
    return _made(kept, bundle)


def _key(bundle: FolderBundle) -> str:
    try:
        versions = [version("kitoken"), version("tokenizers")]
    except PackageNotFoundError:
        raise PlannerFault("environment", 'kitoken is absent: pip install "context-planner[fast]"') from None
    told = json.dumps([CERTIFICATE_VERSION, TEXTS_VERSION, bundle.manifest.digest, versions])
    return hashlib.sha256(told.encode()).hexdigest()


def _checked(value: Any) -> Mapping[str, Any] | None:
    """Return a kept certificate, None where it is damaged: the comparison then runs again."""
    with suppress(KeyError, TypeError, ValueError):
        fits = type(value["vocabulary"]) is int and type(value["composes"]) is bool
        fits = fits and all(type(text) is str for text in value["foundFirst"])
        if fits and value["sha256"] == sha256_hex(base64.b64decode(value["packed"], validate=True)):
            found: Mapping[str, Any] = value
            return found
    return None


def _compared(bundle: FolderBundle) -> Mapping[str, Any]:
    """Make the engine and compare it; return its certificate."""
    from planner.bundles.fast_engine import pack

    loaded = bundle.parts[0]
    if loaded.tokenizer_json is None:
        detail = f"the tokenizer is {loaded.tokenizer_format}; only what the tokenizers library runs is taken"
        raise PlannerFault("engine_not_admitted", detail)
    controls = bundle.manifest.control_tokens
    packed, composes = pack(loaded.tokenizer_json(), controls)
    certificate = {
        "packed": base64.b64encode(packed).decode(),
        "sha256": sha256_hex(packed),
        "vocabulary": bundle.exact_engine.vocab_size,
        "composes": composes,
        "foundFirst": _found_first(bundle, composes),
    }
    engine = _made(certificate, bundle)
    spelled = [*(token.text for token in controls), *bundle.text_tokens]
    certificate["comparedBytes"] = compare(engine, bundle.exact_engine, spelled)
    return certificate


def _found_first(bundle: FolderBundle, composes: bool) -> list[str]:
    """List the added tokens of ordinary text that the exact library matches by rules of its own.

    That is before text is composed or a space becomes its sign, with the blanks beside it, or between borders.
    """
    ordinary = set(bundle.text_tokens)
    return [
        token.text
        for token in bundle.parts[0].added
        if token.text in ordinary
        and (
            composes or _SPACE in token.text
            or token.lstrip or token.rstrip or token.single_word or token.normalized
        )
    ]  # fmt: skip


def compare(fast: FastEngine, exact: Engine, spelled: list[str]) -> int:
    """Compare ids, and some borders, on every class of text; return how many bytes were compared.

    spelled  control strings and other added tokens, which stand in some of the texts

    Raises engine_not_admitted naming the first class that differs, and how many of its texts.
    """
    total = 0
    for name, texts in chain(classes(spelled), of_vocabulary(list(fast.entries()))):
        differing = sum(list(fast.encode(text).ids) != list(exact.encode(text).ids) for text in texts)
        if differing:
            detail = f"other ids in {differing} of {len(texts)} texts of the class {name}"
            raise PlannerFault("engine_not_admitted", detail)
        for text in texts[:BORDER_TEXTS]:
            ours, theirs = fast.encode(text), exact.encode(text)
            if any(ours.token_at(char) != theirs.token_at(char) for char in range(len(text) + 1)):
                raise PlannerFault("engine_not_admitted", f"other borders in a text of the class {name}")
        total += sum(len(text.encode()) for text in texts)
    return total


def _made(certificate: Mapping[str, Any], bundle: FolderBundle) -> FastEngine:
    from planner.bundles.fast_engine import FastEngine

    return FastEngine(
        base64.b64decode(certificate["packed"]),
        certificate["vocabulary"],
        lambda: bundle.exact_engine,
        composes=certificate["composes"],
        found_first=certificate["foundFirst"],
    )
