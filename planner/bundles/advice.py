"""What a person should know about a bundle that was just added: what its template loses, what its files leave open."""

from __future__ import annotations

from collections.abc import Iterator

from planner.bundles.bundle import FolderBundle
from planner.bundles.hf_config import CONFIG, FolderConfig
from planner.bundles.loaded import Loaded
from planner.values.bundle import Manifest
from planner.values.profile import TemplateProfile

_CARRIED = {
    "system": "system text",
    "late_system": "system text after the first message",
    "developer": "developer text",
    "late_developer": "developer text after the first message",
    "tools": "declarations of tools",
    "tool_call": "tool calls",
    "tool_result": "tool results",
    "parallel_calls": "several tool calls at once",
    "text_beside_call": "text beside a tool call",
    "neighbouring_users": "two user messages in a row",
    "neighbouring_assistants": "two answers in a row",
    "assistant_first": "an answer before the first question",
    "object_arguments": "arguments of calls as an object",
}
"""Fields of a profile in a person's words."""


def advise(bundle: FolderBundle, manifest: Manifest) -> tuple[str, ...]:
    """Return one line for everything of a bundle that costs or refuses plans, or that its files leave open.

    No line holds text of the template or of a conversation. Raises what the profile raises.
    """
    loaded, config = bundle.parts
    lines = [*_disagreements(loaded, config)]
    if manifest.context_tokens is None:
        lines.append("no file states a context; the limit of each request counts (state it with --context)")
    if manifest.template_digest is None:
        lines.append("there is no chat template: the bundle counts text and plans nothing (add one with --template)")
    else:
        lines += _template(bundle.profile)
    return (*lines, *_tokens(bundle, manifest))


def _disagreements(loaded: Loaded, config: FolderConfig) -> Iterator[str]:
    """Compare the configuration's list of added tokens with the tokenizer's own, which counts."""
    own = {token.id: token for token in loaded.added}
    other = [
        index
        for index, stated in config.added_tokens.items()
        if loaded.lookup(str(_text(stated))) != index
        or (index in own and bool(stated.get("special")) != own[index].special)
    ]
    if other:
        first = ", ".join(map(str, sorted(other)[:6])) + (" ..." if len(other) > 6 else "")
        yield f"{CONFIG} describes {len(other)} added tokens otherwise than the tokenizer's file, which counts: {first}"


def _text(stated: object) -> object:
    return stated.get("content") if isinstance(stated, dict) else None


def _template(profile: TemplateProfile) -> Iterator[str]:
    for verdict, words in (("dropped", "the template loses without an error"), ("raises", "the template refuses")):
        found = [title for name, title in _CARRIED.items() if getattr(profile, name) == verdict]
        if found:
            yield f"{words}: {', '.join(found)}"
    if profile.reasoning == "raises":
        yield "the template refuses reasoning, which is left out"
    if profile.old_reasoning == "dropped":
        yield "the template leaves out reasoning of earlier turns"
    if profile.generation_prompt == "ignored":
        yield "the template writes no header of the answer"
    if profile.parsed_strings:
        yield f"the template itself looks for {len(profile.parsed_strings)} kinds of markers in content"
    if profile.uses_clock:
        yield "the template writes the date: name it with now in the request or with --now"


def _tokens(bundle: FolderBundle, manifest: Manifest) -> Iterator[str]:
    swallowing = sum(token.lstrip or token.rstrip for token in manifest.control_tokens)
    if swallowing:
        yield f"{swallowing} control tokens swallow whitespace beside them"
    if manifest.encode_mode == "whole":
        yield "prompts are encoded whole, so content that spells a control string is refused"
    if bundle.text_tokens:
        yield f"{len(bundle.text_tokens)} added tokens are ordinary text, which content may spell"
    if "eos_token" not in manifest.variables:
        yield "no file names an end token"
