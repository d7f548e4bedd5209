"""tekken.json: byte ranks with the first ids kept for control tokens (facts-tooling.md §4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from planner.bundles.files import parse_object
from planner.bundles.loaded import AddedText, Loaded, check_sizes
from planner.bundles.patterns import check_pattern
from planner.bundles.tiktoken_engine import TiktokenEngine, check_ranks, rank_bytes
from planner.values.reasons import PlannerFault

# Files up to version 7 do not list their control tokens; these are the names of the first ids.
_UNLISTED = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
    "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
)  # fmt: skip
_LAST_UNLISTED_VERSION = 7
_VARIABLES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def load_tekken(data: bytes, name: str) -> Loaded:
    """Read a tekken file and describe it. Raises bundle_unsafe; the engine: environment, tokenizer_failed.

    The vocabulary is the first `default_vocab_size - default_num_special_tokens` ranks, not the whole list.
    """
    top = parse_object(data, name)
    config = top.get("config")
    vocabulary = top.get("vocab")
    if not isinstance(config, dict) or not isinstance(vocabulary, list):
        raise PlannerFault("bundle_unsafe", f"{name} lacks config or vocab")
    total, reserved = (_size(config, key, name) for key in ("default_vocab_size", "default_num_special_tokens"))
    pattern = config.get("pattern")
    if not isinstance(pattern, str) or not 0 < total - reserved <= len(vocabulary):
        raise PlannerFault("bundle_unsafe", f"{name} has no pattern or fewer ranks than it states")
    check_pattern(pattern)
    ranks = _ranks(vocabulary, total - reserved, name)
    controls = _controls(top, config, reserved, name)
    check_sizes(total, len(controls), max(map(len, ranks)))
    added = {token.text: token.id for token in controls}
    return Loaded(
        tokenizer_format="tekken",
        vocabulary_size=total,
        added=controls,
        lookup=added.get,
        make_engine=lambda chosen: TiktokenEngine(
            ranks, pattern, offset=reserved, added=added, control_tokens=chosen, file_controls=added
        ),
        longest_token_bytes=max(map(len, [*ranks, *(text.encode() for text in added)])),
        variables={key: text for key, text in _VARIABLES.items() if text in added},
    )


def _size(config: Mapping[str, Any], key: str, name: str) -> int:
    value = config.get(key)
    if type(value) is not int or not 0 <= value <= 1 << 21:
        raise PlannerFault("bundle_unsafe", f"{name} does not state {key}")
    return value


def _ranks(vocabulary: list[Any], count: int, name: str) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    listed = 0
    for row in vocabulary:
        rank = row.get("rank") if isinstance(row, dict) else None
        encoded = row.get("token_bytes") if isinstance(row, dict) else None
        if type(rank) is not int or not isinstance(encoded, str):
            raise PlannerFault("bundle_unsafe", f"{name} holds a row without rank or bytes")
        if rank < count:
            ranks[rank_bytes(encoded, name)] = rank
            listed += 1
    check_ranks(ranks, count if listed == count else -1, name)
    return ranks


def _controls(top: Mapping[str, Any], config: Mapping[str, Any], reserved: int, name: str) -> tuple[AddedText, ...]:
    rows = top.get("special_tokens")
    if rows is None:
        version = re.fullmatch(r"v(\d+)[a-z0-9]*", str(config.get("version")))
        if version is None or int(version[1]) > _LAST_UNLISTED_VERSION:
            raise PlannerFault("bundle_unsafe", f"{name} does not list its control tokens")
        names = dict(enumerate(_UNLISTED))
    else:
        good = isinstance(rows, list) and all(
            isinstance(row, dict) and type(row.get("rank")) is int and isinstance(row.get("token_str"), str)
            for row in rows
        )
        names = {row["rank"]: row["token_str"] for row in rows} if good else {}
        if not good or len(names) != len(rows):
            raise PlannerFault("bundle_unsafe", f"{name} lists its control tokens wrongly")
    if any(not 0 <= index < reserved for index in names):
        raise PlannerFault("bundle_unsafe", f"{name} gives a control token an id outside the reserved ones")
    texts = [names.get(index, f"<SPECIAL_{index}>") for index in range(reserved)]
    if len(set(texts)) != len(texts) or not all(texts):
        raise PlannerFault("bundle_unsafe", f"{name} names a control token twice")
    return tuple(AddedText(text, index, special=True) for index, text in enumerate(texts))
