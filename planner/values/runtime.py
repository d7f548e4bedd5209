"""What an engine does to a prompt, as reviewed data, and what one deployment of it declares (R41, R173, X60)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

LimitCompare = Literal["ge", "gt"]
BeginRule = Literal["never", "always", "once"]
SilentLoss = Literal["none", "output", "input"]
CacheRule = Literal["none", "prefix", "append"]
Meaning = Literal["whole_prompt", "prefilled_now", "session_with_output", "session_with_reasoning", "unknown"]
ValidWhen = Literal["always", "before_rollback", "after_rollback"]
MEANINGS: tuple[Meaning, ...] = (
    "whole_prompt", "prefilled_now", "session_with_output", "session_with_reasoning", "unknown",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RuntimeProfile:
    """The reviewed rules of one engine; token figures are of one slot's window (facts-runtimes.md §1).

    accepts_ids       takes token ids as they are; without it only text or messages can be handed over.
    limit_compare     refuses a prompt of `ge` (at least) or `gt` (more than) as many tokens as its limit.
    kept_back_tokens  of the window that prompt and reserve together may not use.
    output_shares_window  what it generates takes from the same window. The reserve is deducted either way (X4).
    output_limit, total_limit  most tokens it generates; most of prompt and output together; None: no own limit.
    min_prefill_tokens  cells that a prompt takes however short it is; prefill_multiple: it is padded to such a one.
    window_multiple   the window of a slot is rounded up to a multiple of this.
    begin_rule        puts a begin token before a text: never, always, or unless the text has one.
    parses_special    control strings in a text become control tokens.
    normalises_text   applies the model's Unicode normal form to a text, as the tokenizer file does.
    silent_loss       what it may leave out without an error. cache_rule: what it reuses of earlier prompts.
    reported_meaning, reported_when  what its own count of tokens counts, and when it says so.
    context_variables  what it gives to a chat template beside messages and tools.
    message_changes   what it does to messages before it renders them, by name.
    versions          the versions all of this was reviewed for. evidence: measured (M) or read in source (S).
    """

    name: str
    accepts_ids: bool
    limit_compare: LimitCompare
    versions: tuple[str, ...]
    evidence: Literal["M", "S"]
    kept_back_tokens: int = 0
    output_shares_window: bool = True
    output_limit: int | None = None
    total_limit: int | None = None
    min_prefill_tokens: int = 0
    prefill_multiple: int = 1
    window_multiple: int = 1
    begin_rule: BeginRule = "never"
    parses_special: bool = True
    normalises_text: bool = True
    silent_loss: SilentLoss = "none"
    cache_rule: CacheRule = "none"
    reported_meaning: Meaning = "unknown"
    reported_when: ValidWhen = "always"
    context_variables: tuple[str, ...] = ()
    message_changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Runtime:
    """An engine as a deployment runs it; the manifest states it, and all of it is part of the bundle's identity.

    version         of the engine as deployed; None is not stated.
    context_tokens  the window the engine was started with, shared by its slots; None: the bundle's own.
    overhead_tokens  what the engine or its SDK adds to every prompt by itself (R41).
    profile         the reviewed rules, with the figures in them that the deployment states itself.
    """

    profile: RuntimeProfile
    version: str | None = None
    slots: int = 1
    context_tokens: int | None = None
    overhead_tokens: int = 0

    @property
    def name(self) -> str:
        """The engine's name."""
        return self.profile.name

    @property
    def reviewed(self) -> bool:
        """Whether the profile was reviewed for the version that runs (R173)."""
        return self.version in self.profile.versions

    @property
    def label(self) -> str:
        """Name and version as one word.

        >>> Runtime(RuntimeProfile("x", True, "ge", ("1",), "M"), "1").label
        'x@1'
        """
        return self.name if self.version is None else f"{self.name}@{self.version}"

    def slot_tokens(self, context_tokens: int | None) -> int | None:
        """Return the window of one slot where the model's context is `context_tokens`; None where nobody says.

        Rounded up as the engine does only in a version where that was seen: the smaller figure is safe anywhere.
        """
        started = self.context_tokens or context_tokens
        if started is None:
            return None
        share = started // self.slots
        multiple = self.profile.window_multiple if self.reviewed else 1
        slot = -(-share // multiple) * multiple
        return slot if context_tokens is None else min(slot, context_tokens)

    def identity(self) -> dict[str, Any]:
        """Return everything as plain JSON, for the bundle's digest: a changed rule is another bundle."""
        return asdict(self)
