"""Compare what another engine makes of a bundle's template with the reference (field-notes.md M7).

`differs_on` is the question an activation asks: a template is not activated for an engine it differs on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.encoding.template import TemplateFailure, output_budget, render_plain, variables
from planner.encoding.template_bounds import OutputBudgetExceeded
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
    return tuple(
        _Pair(source, strings, engine, one).verdict(name, found, tokenizer)
        for name, one, found in zip(SHAPES, cases, there, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Pair:
    """One case of one engine, and how the reference renders it."""

    source: str
    strings: Mapping[str, str]
    engine: Renderer
    case: Mapping[str, Any]

    def verdict(self, shape: str, there: Rendered, tokenizer: Engine | None) -> ShapeVerdict:
        """Compare what the engine wrote with the reference; ids count where there is a tokenizer."""
        here = self.here(self.case, {})
        if there.text is None:
            if here.text is None:
                return ShapeVerdict(shape, "both_raise")
            return ShapeVerdict(shape, "raises_there", cause=there.reason)
        if here.text is None:
            return ShapeVerdict(shape, "raises_here", cause=self._cause(there.text) or here.reason)
        other = there.text
        bos = self.strings.get("bos_token", "") if self.engine.drops_bos else ""
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
        return ShapeVerdict(shape, "different", token, character, self._cause(other))

    def here(self, one: Mapping[str, Any], switches: Mapping[str, Any]) -> Rendered:
        """Render as a plan would be; where the template raises, with the class of what it raised."""
        values = variables(one["messages"], one["tools"], switches, self.strings, self.engine.now)
        size = len(json.dumps([one["messages"], one["tools"]]))
        try:
            return Rendered(render_plain(self.source, values, output_budget(size)))
        except OutputBudgetExceeded:
            return Rendered(None, "Jinja2 raises a limit of output")
        except TemplateFailure as failure:
            return Rendered(None, f"Jinja2 raises {failure.kind}")

    def _cause(self, there: str) -> str:
        return cause_of(lambda one, switches: self.here(one, switches).text, self.case, self.engine.switches, there)


def _first_difference(left: Sequence[Any], right: Sequence[Any]) -> int | None:
    if left == right:
        return None
    shorter = min(len(left), len(right))
    return next((index for index in range(shorter) if left[index] != right[index]), shorter)
