"""The tokenizer formats: one row each. A new format is a row here, a module beside it and its test."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from planner.bundles.files import MAX_SENTENCEPIECE_BYTES, MAX_TOKENIZER_BYTES, FolderFiles
from planner.bundles.hf_config import FolderConfig
from planner.bundles.loaded import Loaded
from planner.bundles.walked import walked_tokenizer_json
from planner.values.bundle import TokenizerFormat
from planner.values.reasons import PlannerFault

Names = frozenset[str]


@dataclass(frozen=True, slots=True)
class Source:
    """What a loader gets: the folder, the names its row chose, the configuration.

    `reviewed` is true for a shipped manifest, whose figures need not be derived from the vocabulary again.
    """

    files: FolderFiles
    names: tuple[str, ...]
    config: FolderConfig
    reviewed: bool = False
    cache_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """`choose` returns the files this format would read among the names present, () for none."""

    name: TokenizerFormat
    choose: Callable[[Names], tuple[str, ...]]
    load: Callable[[Source], Loaded]


def _only(*names: str) -> Callable[[Names], tuple[str, ...]]:
    return lambda present: names if set(names) <= present else ()


WHOLE_MODEL_SUFFIXES = (".gguf", ".litertlm")
"""One file that holds a tokenizer and a template beside the weights."""

_MODEL_FILE = re.compile(r"[A-Za-z0-9._-]*\.(model(\.v[0-9a-z]+)?|tiktoken)")


def _model_file(present: Names) -> tuple[str, ...]:
    found = sorted(name for name in present if _MODEL_FILE.fullmatch(name))
    if "tokenizer.model" in found:
        return ("tokenizer.model",)
    if len(found) > 1:
        raise PlannerFault("bundle_incomplete", f"nothing says which of {', '.join(found[:8])} is the model's")
    return tuple(found)


def _tekken_file(present: Names) -> tuple[str, ...]:
    found = sorted(name for name in present if re.fullmatch(r"tekken[A-Za-z0-9_.-]*\.json", name))
    if len(found) > 1:
        raise PlannerFault("bundle_incomplete", f"nothing says which of {', '.join(found[:8])} is the model's")
    return tuple(found)


def _load_tokenizer_json(source: Source) -> Loaded:
    from planner.bundles.tokenizer_json import load_tokenizer_json

    name = source.names[0]

    def read() -> bytes:
        return source.files.read(name, MAX_TOKENIZER_BYTES)

    if source.reviewed:
        return load_tokenizer_json(read(), read, reviewed=True)
    return walked_tokenizer_json(read, source.cache_dir)


def _load_vocab_merges(source: Source) -> Loaded:
    from planner.bundles.vocab_merges import load_vocab_merges

    return load_vocab_merges(source.files, source.config)


def _load_tekken(source: Source) -> Loaded:
    from planner.bundles.tekken import load_tekken

    return load_tekken(source.files.read(source.names[0], MAX_TOKENIZER_BYTES), source.names[0])


def _load_model_file(source: Source) -> Loaded:
    name = source.names[0]
    data = source.files.read(name, MAX_SENTENCEPIECE_BYTES)
    kind = sniff_model_file(data)
    if kind == "sentencepiece":
        from planner.bundles.spm import load_sentencepiece

        return load_sentencepiece(data, name)
    if kind == "tiktoken":
        from planner.bundles.tiktoken_text import load_tiktoken_text

        return load_tiktoken_text(data, name, source.config)
    raise PlannerFault("bundle_unsafe", f"{name} is neither a sentencepiece model nor tiktoken ranks")


_RANK_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]+\r?\n")


def sniff_model_file(data: bytes) -> str | None:
    """Tell what a `.model` file holds from its first bytes: sentencepiece, tiktoken or None.

    >>> sniff_model_file(b"IQ== 0\\n"), sniff_model_file(b"not a model")
    ('tiktoken', None)
    """
    if _RANK_LINE.match(data):
        return "tiktoken"
    # A sentencepiece model begins with its first piece: field 1, a message whose own field 1 is the text.
    if len(data) > 3 and data[0] == 0x0A and data[2] == 0x0A:
        return "sentencepiece"
    return None


FORMATS: tuple[Format, ...] = (
    Format("tokenizer_json", _only("tokenizer.json"), _load_tokenizer_json),
    Format("tekken", _tekken_file, _load_tekken),
    Format("vocab_merges", _only("vocab.json", "merges.txt"), _load_vocab_merges),
    Format("sentencepiece", _model_file, _load_model_file),
    Format("tiktoken", _model_file, _load_model_file),
)
"""In order of preference where a folder holds several; a `.model` file tells by its bytes what it is."""


def choose_format(present: Names) -> tuple[Format, tuple[str, ...]]:
    """Return the first row whose files are there, with their names.

    Raises bundle_incomplete naming what is missing.
    """
    for row in FORMATS:
        names = row.choose(present)
        if names:
            return row, names
    for have, lack in (("vocab.json", "merges.txt"), ("merges.txt", "vocab.json")):
        if have in present:
            raise PlannerFault("bundle_incomplete", f"{have} is there but {lack} is absent")
    raise PlannerFault(
        "bundle_incomplete",
        "no tokenizer: neither tokenizer.json, tekken.json, vocab.json with merges.txt, nor a .model file",
    )


def whole_model_file(present: Names) -> str | None:
    """Return the GGUF or LiteRT-LM file of a folder that holds no tokenizer of another format.

    None where the folder has a tokenizer, or no such file. Raises bundle_incomplete where several stand there
    and nothing says which is the model's.
    """
    if any(row.choose(present) for row in FORMATS):
        return None
    found = sorted(name for name in present if name.lower().endswith(WHOLE_MODEL_SUFFIXES))
    if len(found) > 1:
        kinds = "GGUF files" if all(name.lower().endswith(".gguf") for name in found) else "whole models"
        raise PlannerFault("bundle_incomplete", f"the folder holds {len(found)} {kinds}; name one of them")
    return found[0] if found else None


def row_of(name: TokenizerFormat) -> Format:
    """Return a format's row by its name."""
    return next(row for row in FORMATS if row.name == name)
