"""The Bundle port: what planning needs from a model's files, and nothing of how they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from planner.values.part_cost import PartCost
from planner.values.profile import TemplateProfile
from planner.values.runtime import Runtime

TokenizerFormat = Literal["tokenizer_json", "vocab_merges", "sentencepiece", "tiktoken", "tekken", "gguf", "litertlm"]
EngineChoice = Literal["exact", "fast"]
EncodeMode = Literal["runs", "whole"]


@dataclass(frozen=True, slots=True)
class ControlToken:
    """An id the template may write and content may not; the flags say what it swallows beside it."""

    text: str
    id: int
    lstrip: bool = False
    rstrip: bool = False


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a bundle: name relative to its folder, size in bytes, sha256 in hex."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Adapter:
    """Weights a runtime adds to the base model: by what they are (files, hashed and never parsed) and how much."""

    files: tuple[FileEntry, ...]
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Tier:
    """An approved context tier."""

    id: str
    max_input_tokens: int
    valid_to: str | None = None


@dataclass(frozen=True, slots=True)
class KvGeometry:
    """What a model keeps per token, in elements per layer; `kv_heads` has one number per layer.

    `sliding_layers` tells which layers see only the last `sliding_window` tokens, None where the file does
    not say; such layers may have lengths of their own. The last `shared_layers` keep nothing themselves.
    """

    layers: int
    kv_heads: tuple[int, ...]
    key_length: int
    value_length: int
    sliding_window: int | None
    sliding_layers: tuple[bool, ...] | None
    sliding_key_length: int
    sliding_value_length: int
    shared_layers: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything about a bundle that can change ids, with its digest (design.md §7).

    `context_tokens` is None where the files state nothing usable; then the request's limit counts and
    the receipt says `context_unverified`. `variables` are the strings the template reads, such as
    `bos_token`. `runtime` None deducts nothing from the window. `rewrites` are the normalisations of a
    certified template, handed on to its profile. `kv` are figures for device arithmetic; they change no id. `parts`
    say what an image or a sound costs; without an entry such a part is refused.
    `app_versions` bound an activated template's use; `template_fallback` says why the built-in one stands in (R177).
    `compact_at` is the share of the usable input from which compaction is due where a request states none (X27).
    """

    id: str
    digest: str
    tokenizer_format: TokenizerFormat
    files: tuple[FileEntry, ...]
    template_digest: str | None
    template_entry: str | None = None
    template_version: str | None = None
    base_model: str | None = None
    adapter: Adapter | None = None
    runtime: Runtime | None = None
    context_tokens: int | None = None
    tiers: tuple[Tier, ...] = ()
    reserved_output_tokens: int | None = None
    safety_margin_tokens: int | None = None
    compact_at: float | None = None
    encode_mode: EncodeMode = "runs"
    prefix_space: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    concessions: tuple[str, ...] = ()
    rewrites: tuple[str, ...] = ()
    control_tokens: tuple[ControlToken, ...] = ()
    longest_token_bytes: int | None = None
    origin: str | None = None
    licence: str | None = None
    kv: KvGeometry | None = None
    parts: tuple[PartCost, ...] = ()
    app_versions: tuple[str | None, str | None] = (None, None)
    template_fallback: str | None = None
    warnings: tuple[str, ...] = ()


class Encoded(Protocol):
    """One encoded stretch of text."""

    @property
    def ids(self) -> Sequence[int]:
        """Token ids in order."""

    def token_at(self, char: int) -> tuple[int, int]:
        """Return (index, start) of the first token that reaches beyond `char`; start <= its first character.

        A start below `char` means that the token straddles the border at `char`. Past the last token the
        index is `len(ids)` and the start is `char`.
        """


class Engine(Protocol):
    """A loaded tokenizer with its control tokens switched off, safe to share between threads."""

    vocab_size: int

    def encode(self, text: str) -> Encoded:
        """Encode one stretch as ordinary text: no control token is parsed, none is added."""

    def encode_parsed(self, text: str) -> Sequence[int]:
        """Encode as the tokenizer file does on its own, control strings parsed: the oracle's way."""

    def encode_parsed_spans(self, text: str) -> Encoded:
        """Encode as `encode_parsed`, with borders: for bundles whose renders may not be cut."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, control tokens included."""


class Bundle(Protocol):
    """A loaded model bundle. Loading is lazy and happens once per process."""

    @property
    def manifest(self) -> Manifest:
        """Identity and declared figures."""

    @property
    def engine(self) -> Engine:
        """The tokenizer, loaded at first use."""

    @property
    def template_source(self) -> str:
        """The chat template's text. Raises `bundle_has_no_template`."""

    @property
    def profile(self) -> TemplateProfile:
        """The measured template profile. Raises `bundle_has_no_template`."""
