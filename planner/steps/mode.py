"""May a plan be handed over in the mode that is asked for? Ids need limits only, text and messages a certificate."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from planner.values.bundle import Manifest
from planner.values.certificate import Certificate, Shape
from planner.values.profile import TemplateProfile
from planner.values.prompt import TemplateInputs
from planner.values.reasons import RefusalSignal
from planner.values.request import PlanRequest

_EXACT_INTEGERS = 1 << 63


@dataclass(frozen=True, slots=True)
class Handover:
    """How a plan is handed over: its mode, the certificate it stands on, and how good its count is."""

    mode: str
    certificate: Certificate | None = None
    begin: str = ""

    @property
    def count_source(self) -> Literal["exact", "upper_bound"]:
        """`upper_bound` where the runtime's own ids were never compared with ours."""
        return "exact" if self.certificate is None or self.certificate.exact else "upper_bound"


def handover(
    request: PlanRequest, manifest: Manifest, profile: TemplateProfile, certificates: Mapping[str, Certificate]
) -> Handover:
    """Return how a plan of this request is handed over (design.md §4.5).

    A server that renders messages itself has its own clock and knows no template options of ours.

    A bundle without a runtime has nothing to be certified against: ids and text as they are, messages never.
    Refuses runtime_takes_no_ids, runtime_not_certified.
    """
    mode, runtime = request.options.mode, manifest.runtime
    if runtime is None and mode != "messages":
        return Handover(mode)
    if runtime is None:
        raise RefusalSignal("runtime_not_certified", "mode messages: the bundle names no runtime")
    if mode == "ids":
        if not runtime.profile.accepts_ids:
            raise RefusalSignal("runtime_takes_no_ids", f"mode ids: {runtime.name}")
        return Handover(mode)
    found = certificates.get(mode)
    if found is None or found.runtime != runtime.name:
        raise RefusalSignal("runtime_not_certified", f"mode {mode}: no certificate for {runtime.label}")
    if runtime.version not in found.versions:
        versions = ", ".join(found.versions)
        raise RefusalSignal("runtime_not_certified", f"mode {mode}: {runtime.label} is not certified, only {versions}")
    if mode == "messages" and (request.template_options or profile.uses_clock):
        what = "template options are" if request.template_options else "a template that reads a clock is"
        raise RefusalSignal("runtime_not_certified", f"mode messages: {what} not handed over")
    begin = manifest.variables.get("bos_token", "") if found.runtime_begins else ""
    return Handover(mode, found, begin)


def check_covered(how: Handover, inputs: TemplateInputs, prompt: str) -> None:
    """Refuse a prompt of a shape that was not compared, or that the runtime is known to read otherwise.

    Refuses runtime_not_certified.
    """
    if how.certificate is None:
        return
    lacking = [one for one in shapes_of(inputs, prompt) if one not in how.certificate.covers]
    if lacking:
        raise RefusalSignal("runtime_not_certified", f"mode {how.mode}: {lacking[0]} was not certified")
    if how.mode != "messages":
        return
    if not all(_as_printed(one) for one in _arguments(inputs)):
        raise RefusalSignal("runtime_not_certified", "mode messages: arguments of a call would be printed otherwise")
    numbers = _numbers_in([inputs.tools or (), [_read(one) for one in _arguments(inputs)]])
    if any(_unsafe_number(one) for one in numbers):
        raise RefusalSignal("runtime_not_certified", "mode messages: a number of a tool may be printed otherwise")


def shapes_of(inputs: TemplateInputs, prompt: str) -> tuple[Shape, ...]:
    """Return what of a conversation a runtime could read otherwise than we do."""
    found: list[Shape] = ["plain"]
    messages = inputs.messages
    if any(one.get("role") == "system" for one in messages):
        found.append("system")
    if sum(one.get("role") == "user" for one in messages) > 1:
        found.append("turns")
    if inputs.tools:
        found.append("tools")
    if any(one.get("tool_calls") or one.get("role") == "tool" for one in messages):
        found.append("calls")
    if any(one.get("reasoning_content") for one in messages):
        found.append("reasoning")
    if not unicodedata.is_normalized("NFC", prompt):
        found.append("not_normal")
    return tuple(found)


def upstream_messages(inputs: TemplateInputs) -> tuple[dict[str, Any], ...]:
    """Return the messages as a chat API takes them: plain text, arguments as JSON text."""
    return tuple(_upstream(one) for one in inputs.messages)


def _upstream(message: Mapping[str, Any]) -> dict[str, Any]:
    # Templates read reasoning under two names, a chat API under one.
    out: dict[str, Any] = {name: _plain(value) for name, value in message.items() if name != "thinking"}
    for call in out.get("tool_calls", ()):
        function = call.get("function", call)
        if not isinstance(function.get("arguments"), str):
            function["arguments"] = json.dumps(function.get("arguments"), ensure_ascii=False)
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return "".join((value, ""))  # a string of owners becomes a plain one
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _arguments(inputs: TemplateInputs) -> Iterator[Any]:
    for message in inputs.messages:
        for call in message.get("tool_calls", ()):
            yield call.get("function", call).get("arguments")


def _as_printed(arguments: Any) -> bool:
    """Tell whether a server that reads arguments and prints them again gives the same text: spaced, nothing escaped."""
    if not isinstance(arguments, str):
        return True
    read = _read(arguments)
    return read is not None and arguments == json.dumps(read, ensure_ascii=False)


def _read(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return None


def _numbers_in(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _numbers_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _numbers_in(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def _unsafe_number(value: Any) -> bool:
    return isinstance(value, float) or not -_EXACT_INTEGERS <= value < _EXACT_INTEGERS
