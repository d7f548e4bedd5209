"""A `.model` file that is tiktoken text: one line per token, base64 and rank.

Such a file does not hold its splitting rule; it is taken only where the configuration's class and the number
of ranks leave one rule (Llama 3), and refused by name otherwise.
"""

from __future__ import annotations

from planner.bundles.hf_config import CONFIG, FolderConfig, token_text
from planner.bundles.loaded import AddedText, Loaded, check_sizes
from planner.bundles.tiktoken_engine import TiktokenEngine, check_ranks, rank_bytes
from planner.values.reasons import PlannerFault

_LLAMA3_CLASSES = frozenset({"LlamaTokenizer", "LlamaTokenizerFast", "PreTrainedTokenizerFast"})
_LLAMA3_RANKS = 128_000
_LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def load_tiktoken_text(data: bytes, name: str, config: FolderConfig) -> Loaded:
    """Read the ranks and describe them; control tokens come from tokenizer_config.json.

    Raises bundle_unsafe, bundle_mismatch, format_not_supported naming the class.
    """
    ranks = read_ranks(data, name)
    if config.tokenizer_class not in _LLAMA3_CLASSES or len(ranks) != _LLAMA3_RANKS:
        stated = f"{config.tokenizer_class[:60]!a}" if config.tokenizer_class else "none"
        raise PlannerFault(
            "format_not_supported", f"{len(ranks)} tiktoken ranks of the tokenizer class {stated} in {CONFIG}"
        )
    added = _added(config, len(ranks))
    ids = {token.text: token.id for token in added}
    check_sizes(len(ranks) + len(added), len(added), max(map(len, ranks)))
    controls = {token.text: token.id for token in added if token.special}
    return Loaded(
        tokenizer_format="tiktoken",
        vocabulary_size=len(ranks) + len(added),
        added=added,
        lookup=ids.get,
        make_engine=lambda chosen: TiktokenEngine(
            ranks, _LLAMA3_SPLIT, offset=0, added=ids, control_tokens=chosen, file_controls=controls
        ),
        longest_token_bytes=max(map(len, [*ranks, *(text.encode() for text in ids)])),
    )


def read_ranks(data: bytes, name: str) -> dict[bytes, int]:
    """Return the ranks by token. Raises bundle_unsafe for any line that is none, and for gaps.

    >>> import base64
    >>> len(read_ranks(b"".join(b"%s %d\\n" % (base64.b64encode(bytes([b])), b) for b in range(256)), "x"))
    256
    """
    ranks: dict[bytes, int] = {}
    lines = data.splitlines()
    for number, line in enumerate(lines, start=1):
        encoded, _, rank = line.partition(b" ")
        if not rank.isdigit() or len(rank) > 7:
            raise PlannerFault("bundle_unsafe", f"{name} line {number} is no token with its rank")
        ranks[rank_bytes(encoded, name)] = int(rank)
    check_ranks(ranks, len(lines), name)
    return ranks


def _added(config: FolderConfig, ranks: int) -> tuple[AddedText, ...]:
    added = []
    for index, row in sorted(config.added_tokens.items()):
        if index < ranks or row.get("lstrip") or row.get("rstrip") or row.get("single_word"):
            raise PlannerFault("bundle_mismatch", f"added token {index} of {CONFIG} does not fit the ranks")
        added.append(AddedText(token_text(dict(row)) or "", index, special=bool(row.get("special"))))
    if len({token.text for token in added}) != len(added):
        raise PlannerFault("bundle_mismatch", f"{CONFIG} names an added token twice")
    return tuple(added)
