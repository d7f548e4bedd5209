"""What tokenizer_config.json, config.json, genai_config.json and chat_template.jinja of a folder state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.bundles.files import (
    MAX_CONFIG_BYTES,
    MAX_TEMPLATE_BYTES,
    FolderFiles,
    parse_json,
    parse_object,
    parse_text,
)
from planner.bundles.geometry_config import geometry_of_config
from planner.values.bundle import KvGeometry
from planner.values.reasons import PlannerFault

CONFIG = "tokenizer_config.json"
MODEL_CONFIG = "config.json"
TEMPLATE_FILE = "chat_template.jinja"
LEGACY_NAMES = "special_tokens_map.json"
GENAI_CONFIG = "genai_config.json"
PROCESSOR_TEMPLATE = "chat_template.json"
"""The template's place in folders that also take pictures; read where no other file has one."""
MORE_TEMPLATES = "additional_chat_templates"

NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_CONTEXT_KEYS = ("model_max_length", "max_position_embeddings", "max_sequence_length", "n_positions", "n_ctx")
_NONSENSE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class FolderConfig:
    """`tokens` are the named special tokens as text, with what the template may read beside them.

    `stop_ids` are the ids at which an ONNX Runtime GenAI folder says that an answer ends.
    """

    tokenizer_class: str | None = None
    tokens: Mapping[str, str] = field(default_factory=dict)
    added_tokens: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    context_tokens: int | None = None
    template: str | None = None
    template_entry: str | None = None
    kv: KvGeometry | None = None
    stop_ids: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()


def read_config(files: FolderFiles, present: frozenset[str], entry: str = "default") -> FolderConfig:
    """Read a folder's configuration; `entry` chooses among named templates.

    Raises bundle_unsafe for damaged files, manifest_invalid for a template entry that is not there.
    """
    stated = parse_object(files.read(CONFIG, MAX_CONFIG_BYTES), CONFIG) if CONFIG in present else {}
    contexts = [_context(stated)]
    kv, genai = None, {}
    if MODEL_CONFIG in present:
        model = parse_object(files.read(MODEL_CONFIG, MAX_CONFIG_BYTES), MODEL_CONFIG)
        kv = geometry_of_config(model)
        inner = model.get("text_config")
        contexts += [_context(model), _context(inner if isinstance(inner, dict) else {})]
    if GENAI_CONFIG in present:
        found = parse_object(files.read(GENAI_CONFIG, MAX_CONFIG_BYTES), GENAI_CONFIG).get("model")
        genai = found if isinstance(found, dict) else {}
        contexts.append(_context(genai, ("context_length",)))
    known = [value for value in contexts if value is not None]
    template, used, warnings = _template(files, present, stated, entry)
    if len(set(known)) > 1:
        warnings += (f"the files state different contexts, {_listed(known)}; the smallest counts",)
    remote = "auto_map" in stated
    if remote:
        warnings += (f"{CONFIG} names code of its own (auto_map), which is not run",)
    tokenizer_class = stated.get("tokenizer_class")
    return FolderConfig(
        tokenizer_class=tokenizer_class if isinstance(tokenizer_class, str) else None,
        tokens=_tokens(files, present, stated),
        added_tokens=_added(stated),
        context_tokens=min(known) if known else None,
        template=template,
        template_entry=used,
        kv=kv,
        stop_ids=_ids(genai.get("eos_token_id")),
        warnings=warnings,
    )


def _ids(value: Any) -> tuple[int, ...]:
    return tuple(one for one in (value if isinstance(value, list) else [value]) if type(one) is int)


def token_text(value: Any) -> str | None:
    """Return a token's text from either of its spellings, a string or an object with `content`.

    >>> token_text({"content": "<s>"}), token_text(None)
    ('<s>', None)
    """
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) and value else None


def _tokens(files: FolderFiles, present: frozenset[str], stated: Mapping[str, Any]) -> dict[str, str]:
    sources = [stated]
    # Older folders keep the names in a file of their own; newer ones repeat them there.
    if LEGACY_NAMES in present and "added_tokens_decoder" not in stated:
        sources.insert(0, parse_object(files.read(LEGACY_NAMES, MAX_CONFIG_BYTES), LEGACY_NAMES))
    tokens: dict[str, str] = {}
    for source in sources:
        extra = source.get("extra_special_tokens")
        named = {
            **(extra if isinstance(extra, dict) else {}),
            **{name: source.get(name) for name in NAMED_TOKENS},
        }
        for name, value in named.items():
            text = token_text(value)
            if text is not None and name.isidentifier():
                tokens[name] = text
    return tokens


def _added(stated: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    table = stated.get("added_tokens_decoder")
    if not isinstance(table, dict):
        return {}
    return {
        int(key): value
        for key, value in table.items()
        if key.isdecimal() and isinstance(value, dict) and token_text(value) is not None
    }


def _listed(numbers: list[int]) -> str:
    return " and ".join(f"{number:,}" for number in sorted(set(numbers)))


def _context(source: Mapping[str, Any], keys: Sequence[str] = _CONTEXT_KEYS) -> int | None:
    values = [source.get(key) for key in keys]
    usable = [value for value in values if type(value) is int and 0 < value < _NONSENSE]
    return min(usable) if usable else None


def _template(
    files: FolderFiles, present: frozenset[str], stated: Mapping[str, Any], entry: str
) -> tuple[str | None, str | None, tuple[str, ...]]:
    named = _named_templates(stated.get("chat_template"))
    warnings: tuple[str, ...] = ()
    if entry != "default":
        if entry not in named:
            raise PlannerFault("manifest_invalid", f"{CONFIG} has no template of the entry the manifest names")
        return named[entry], entry, warnings
    inner = named.get("default")
    if inner is None and len(named) == 1:
        inner = next(iter(named.values()))
    elif len(named) > 1:
        warnings += (f"{CONFIG} names {len(named)} templates, of which the default one is used",)
    if TEMPLATE_FILE in present:
        outer = parse_text(files.read(TEMPLATE_FILE, MAX_TEMPLATE_BYTES), TEMPLATE_FILE)
        if inner is not None and inner != outer:
            warnings += (f"{TEMPLATE_FILE} and {CONFIG} hold different templates; {TEMPLATE_FILE} is used",)
        inner = outer
    warnings += more_templates(present)
    if inner is None and PROCESSOR_TEMPLATE in present:
        value = parse_object(files.read(PROCESSOR_TEMPLATE, MAX_CONFIG_BYTES), PROCESSOR_TEMPLATE)
        inner = _named_templates(value.get("chat_template")).get("default")
    return inner, None if inner is None else "default", warnings


def more_templates(present: frozenset[str]) -> tuple[str, ...]:
    """Return the warning about templates in a folder of their own, () where there is none."""
    if MORE_TEMPLATES not in present:
        return ()
    return (f"the templates in {MORE_TEMPLATES} are not read; name one with --template to use it",)


def _named_templates(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return {"default": value}
    if isinstance(value, list):
        rows = [row for row in value if isinstance(row, dict)]
        value = {row.get("name"): row.get("template") for row in rows}
    if not isinstance(value, dict):
        return {}
    return {name: text for name, text in value.items() if isinstance(name, str) and isinstance(text, str)}


def read_vocabulary(files: FolderFiles, name: str, limit_bytes: int) -> dict[str, int]:
    """Read a JSON object from token to id. Raises bundle_unsafe where it is none."""
    value = parse_json(files.read(name, limit_bytes), name)
    if not isinstance(value, dict) or not all(type(index) is int and index >= 0 for index in value.values()):
        raise PlannerFault("bundle_unsafe", f"{name} does not map tokens to ids")
    return value
