"""What a person should know about a bundle that was just added: what its template loses, what its files leave open."""

from __future__ import annotations

from collections.abc import Iterator

from planner.bundles.bundle import FolderBundle
from planner.bundles.hf_config import CONFIG, GENAI_CONFIG, FolderConfig
from planner.bundles.loaded import Loaded
from planner.bundles.profile_words import dropped, parsed, raised, rewritten
from planner.values.bundle import Manifest
from planner.values.profile import TemplateProfile


def advise(bundle: FolderBundle, manifest: Manifest) -> tuple[str, ...]:
    """Return one line for everything of a bundle that costs or refuses plans, or that its files leave open.

    Markers that the template looks for are quoted, other text of it is not. Raises what the profile raises.
    """
    loaded, config = bundle.parts
    lines = [*_disagreements(loaded, config), *_stops(loaded, config)]
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


def _stops(loaded: Loaded, config: FolderConfig) -> Iterator[str]:
    end = config.tokens.get("eos_token")
    if config.stop_ids and end is not None and loaded.lookup(end) not in config.stop_ids:
        yield f"{GENAI_CONFIG} ends answers at other ids than the end token of {CONFIG}"
    if any(index >= loaded.vocabulary_size for index in config.stop_ids):
        yield f"{GENAI_CONFIG} ends answers at ids that the tokenizer does not have"


def _text(stated: object) -> object:
    return stated.get("content") if isinstance(stated, dict) else None


def _template(profile: TemplateProfile) -> Iterator[str]:
    for found, words in ((dropped(profile), "loses without an error"), (raised(profile), "refuses")):
        if found:
            yield f"the template {words}: {', '.join(found)}"
    found = rewritten(profile)
    if found:
        yield f"the template {', '.join(found)}"
    if profile.old_reasoning == "dropped":
        yield "the template leaves out reasoning of earlier turns"
    if profile.generation_prompt == "ignored":
        yield "the template takes no notice of the request for a header of the answer"
    if profile.parsed_strings:
        yield f"the template itself looks for markers in texts: {', '.join(parsed(profile)[:6])}"
    if profile.uses_clock:
        yield "name the date with now in the request or with --now"


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
