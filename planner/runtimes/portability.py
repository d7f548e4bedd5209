"""Compare what another engine makes of a bundle's template with the reference (field-notes.md M7).

`differs_on` is the question an activation asks: a template is not activated for an engine it differs on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.encoding.template import TemplateFailure, render_plain, variables
from planner.runtimes.portability_causes import cause_of
from planner.runtimes.portability_shapes import SHAPES, case
from planner.runtimes.renderers import Rendered, Renderer
from planner.values.bundle import Bundle, Engine
from planner.values.portability import Portability, ShapeVerdict


def differs_on(bundle: Bundle, engine: Renderer) -> tuple[str, ...]:
    """Return the shapes that this engine does not render as the reference does; empty where all are alike.

    Raises what `check_portability` raises.
    """
    return check_portability(bundle, engine).differing


def check_portability(bundle: Bundle, engine: Renderer) -> Portability:
    """Render every shape in both and compare text, then ids.

    Raises PlannerFault: bundle_has_no_template, template_rejected, and what the engine raises.
    """
    profile = bundle.profile
    cases = [case(name, profile) for name in SHAPES]
    verdicts = compare(bundle.template_source, strings_of(bundle), cases, engine, bundle.engine)
    return Portability(engine.name, engine.version, profile.template_digest, verdicts)


def strings_of(bundle: Bundle) -> Mapping[str, str]:
    """Return the bundle's bos_token and the like, as its template sees them when a plan is made."""
    return dict(bundle.manifest.variables)


def compare(
    source: str,
    strings: Mapping[str, str],
    cases: Sequence[Mapping[str, Any]],
    engine: Renderer,
    tokenizer: Engine | None = None,
) -> tuple[ShapeVerdict, ...]:
    """Return a verdict per case, one case per shape and in their order; without a tokenizer texts alone count."""
    there = engine.render(source, strings, cases)
    bos = strings.get("bos_token", "") if engine.drops_bos else ""
    return tuple(
        _verdict(name, reference(source, strings, one, engine.now), found, bos, tokenizer)
        for name, one, found in zip(SHAPES, cases, there, strict=True)
    )


def reference(source: str, strings: Mapping[str, str], one: Mapping[str, Any], now: str) -> Rendered:
    """Render a case as a plan would be; where the template raises, with the class of what it raised."""
    values = variables(one["messages"], one["tools"], {}, strings, now)
    try:
        return Rendered(render_plain(source, values))
    except TemplateFailure as failure:
        return Rendered(None, f"Jinja2 raises {failure.kind}")


def _verdict(shape: str, here: Rendered, there: Rendered, bos: str, tokenizer: Engine | None) -> ShapeVerdict:
    if here.text is None and there.text is None:
        return ShapeVerdict(shape, "both_raise")
    if here.text is None:
        return ShapeVerdict(shape, "raises_here", cause=here.reason)
    if there.text is None:
        return ShapeVerdict(shape, "raises_there", cause=there.reason)
    other = there.text
    if bos and here.text.startswith(bos) and not other.startswith(bos):
        other = bos + other
    character = _first_difference(here.text, other)
    if character is None:
        return ShapeVerdict(shape, "same")
    token = None
    if tokenizer is not None:
        token = _first_difference(tokenizer.encode_parsed(here.text), tokenizer.encode_parsed(other))
        if token is None:
            return ShapeVerdict(shape, "same")
    return ShapeVerdict(shape, "different", token, character, cause_of(here.text, other))


def _first_difference(left: Sequence[Any], right: Sequence[Any]) -> int | None:
    if left == right:
        return None
    shorter = min(len(left), len(right))
    return next((index for index in range(shorter) if left[index] != right[index]), shorter)
