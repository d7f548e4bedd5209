"""What one chat template does to each kind of message: measured by the probe, never declared (design.md §6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

Carried = Literal["kept", "dropped", "raises"]
Arguments = Literal["given", "object"]
_NOT_GIVEN = frozenset({"null_content", "reasoning", "reasoning_beside_text"})


@dataclass(frozen=True, slots=True)
class ParsedString:
    """A string the template itself looks for in the text of `role`; `closer` is empty for a lone one."""

    role: str
    opener: str
    closer: str = ""


@dataclass(frozen=True, slots=True)
class Normalisation:
    """A change we make before rendering, with the render of a small example before and after.

    `before` is None where the template refuses the example as it was.
    """

    name: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Trims:
    """Characters the template was seen to remove at either end of one role's text."""

    left: str = ""
    right: str = ""


@dataclass(frozen=True, slots=True)
class TemplateProfile:
    """The measured behaviour of one template; `template_digest` is the sha256 of its UTF-8 bytes.

    `kept` means the canary's text stands in the output, `dropped` that it vanished without an error,
    `raises` that the render failed. `splice_depth` is the number of following turns a turn's text may
    depend on, None where no small number was proven. `rewrites` names normalisations the manifest adds
    for a certified template (facts-tooling.md §4). `reasoning_beside_text` is about a message that has
    reasoning, text and calls at once; `reasoning` about one that has not all three.
    """

    template_digest: str
    content_form: Literal["string", "parts"] = "string"
    system: Carried = "kept"
    late_system: Carried = "kept"
    developer: Carried = "kept"
    late_developer: Carried = "kept"
    tools: Carried = "kept"
    tool_call: Carried = "kept"
    tool_result: Carried = "kept"
    parallel_calls: Carried = "kept"
    text_beside_call: Carried = "kept"
    neighbouring_users: Carried = "kept"
    neighbouring_assistants: Carried = "kept"
    assistant_first: Carried = "kept"
    object_arguments: Carried = "kept"
    text_arguments: Arguments = "given"
    null_content: Literal["empty", "raises", "differs"] = "empty"
    call_ids: Literal["any", "nine_alphanumerics"] = "any"
    reasoning: Literal["passed", "raises"] = "passed"
    reasoning_beside_text: Literal["passed", "raises"] = "passed"
    old_reasoning: Carried = "kept"
    trims: Mapping[str, Trims] = field(default_factory=dict)
    parsed_strings: tuple[ParsedString, ...] = ()
    options: tuple[str, ...] = ()
    writes_bos: bool = False
    generation_prompt: Literal["appended", "ignored", "rewrites"] = "appended"
    uses_clock: bool = False
    splice_depth: int | None = None
    append_stable: bool = False
    user_slot: bool = False
    rewrites: tuple[str, ...] = ()
    normalisations: tuple[Normalisation, ...] = ()
    template_literals: tuple[str, ...] = ()
    probe_renders: int = 0

    @property
    def refuses_shapes(self) -> bool:
        """Whether the template raised on a shape that a list of messages may have as we frame it.

        Null content and reasoning that it raises on are never given to it.
        """
        given = (one.name for one in fields(self) if one.name not in _NOT_GIVEN)
        return any(getattr(self, name) == "raises" for name in given)
