"""The certified speed: one tracked render, only unseen runs encoded (design.md §4.8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from planner.encoding.assemble import Assembled, Heads, assemble
from planner.encoding.conserve import conserve
from planner.encoding.guards import Guards
from planner.encoding.parsed import assemble_parsed
from planner.encoding.reown import with_texts
from planner.encoding.runs import RunCache
from planner.encoding.template import (
    TemplateFailure,
    output_budget,
    render_plain,
    variables,
)
from planner.encoding.template_bounds import OutputBudgetExceeded
from planner.encoding.tracked_template import render_tracked
from planner.encoding.whole import render_whole
from planner.values.bundle import Bundle
from planner.values.certificate import Certificate
from planner.values.prompt import Counters, Leaf, Rendered, TemplateInputs
from planner.values.reasons import PlannerFault, RefusalSignal

AUDIT_EVERY = 64
_text_of = attrgetter("text")


@dataclass(frozen=True, slots=True)
class Encoding:
    """What one render came to. `failure` is set where the template raised, then nothing else is."""

    rendered: Rendered | None = field(repr=False)
    assembled: Assembled | None = field(repr=False)
    lost: tuple[Leaf, ...] = ()
    detail_lost: tuple[Leaf, ...] = ()
    ambiguous: tuple[Leaf, ...] = ()
    failure: str | None = None

    @property
    def tokens(self) -> int:
        """Number of ids, 0 where the template raised."""
        return 0 if self.assembled is None else len(self.assembled.ids)


class Encoder:
    """One bundle's template, guards and run cache; safe to share between threads.

    `blocked` is set where the bundle's runtime counted otherwise than planned; no plan is made then (X60).
    `certificates` are those of its runtime by mode, for plans that are handed over as text or messages.
    """

    def __init__(self, bundle: Bundle, cache_bytes: int | None = None) -> None:
        """Prepare; the tokenizer is loaded when the first run is encoded."""
        self.bundle = bundle
        self.whole = bundle.manifest.encode_mode == "whole"
        self.splicing = not self.whole
        self.blocked: PlannerFault | None = None
        self.certificates: Mapping[str, Certificate] = {}
        self._plans = 0
        self._may_raise: bool | None = None
        self.guards = Guards(bundle.manifest.control_tokens)
        extra = {} if cache_bytes is None else {"limit_bytes": cache_bytes}
        self.cache = RunCache(bundle, self.guards, **extra)
        self._heads = Heads()

    @property
    def may_raise(self) -> bool:
        """Whether the template refuses some lists of messages that others of the same turns are in."""
        if self._may_raise is None:
            bundle = self.bundle
            self._may_raise = "raise_exception" in bundle.template_source or bundle.profile.refuses_shapes
        return self._may_raise

    def certified(
        self, inputs: TemplateInputs, counters: Counters, *, kind: str = "renders", keep_spans: bool = False
    ) -> Encoding:
        """Render with owners, check conservation, encode. `kind` names the counter the render adds to.

        A bundle whose renders may not be cut (`encode_mode` whole) is encoded in one call, control strings
        parsed. Refuses control_token_forged, template_budget; control_text_in_field for such a bundle.
        """
        rendered = self._render(inputs, counters, kind)
        if isinstance(rendered, TemplateFailure):
            return Encoding(None, None, failure=rendered.kind)
        return self._encode(rendered, inputs, counters, self.cache, self._heads, keep_spans)

    def afresh(self, inputs: TemplateInputs, counters: Counters) -> Encoding:
        """Do what `certified` does with nothing remembered: every run is encoded again, as an audit.

        Refuses as `certified` does.
        """
        spent = Counters()
        rendered = self._render(inputs, spent, "renders")
        if isinstance(rendered, TemplateFailure):
            return Encoding(None, None, failure=rendered.kind)
        cache = RunCache(self.bundle, self.guards)
        found = self._encode(rendered, inputs, spent, cache, None, keep_spans=False)
        counters.audit_renders += spent.renders + spent.probe_renders
        counters.audit_characters_rendered += spent.characters_rendered
        counters.audit_characters_encoded += spent.characters_encoded
        return found

    def controls(self, inputs: TemplateInputs, counters: Counters) -> list[int] | None:
        """Return the control ids of an audit's render; nothing between them is encoded, None where it raises."""
        spent = Counters()
        rendered = self._render(inputs, spent, "renders")
        counters.audit_renders += spent.renders
        counters.audit_characters_rendered += spent.characters_rendered
        if isinstance(rendered, TemplateFailure):
            return None
        found: list[int] = []
        at = 0
        for owner, length in rendered.spans:
            if owner is None or owner.kind == "media":
                found += [hit.token.id for hit in self.guards.find(rendered.text[at : at + length])]
            at += length
        return found

    def forget(self) -> None:
        """Drop every remembered run."""
        self.cache.clear()
        self._heads = Heads()

    def _render(self, inputs: TemplateInputs, counters: Counters, kind: str) -> Rendered | TemplateFailure:
        try:
            rendered = render_tracked(
                self.bundle.template_source, self._values(inputs), output_budget(_characters(inputs))
            )
        except TemplateFailure as failure:
            if failure.kind == "MemoryError":
                raise RefusalSignal("template_budget", "the template ran out of memory") from None
            setattr(counters, kind, getattr(counters, kind) + 1)
            return failure
        except OutputBudgetExceeded:
            raise RefusalSignal("template_budget", "output is beyond 8 times the input") from None
        setattr(counters, kind, getattr(counters, kind) + 1)
        counters.characters_rendered += len(rendered.text)
        return rendered

    def _encode(
        self,
        rendered: Rendered,
        inputs: TemplateInputs,
        counters: Counters,
        cache: RunCache,
        heads: Heads | None,
        keep_spans: bool,
    ) -> Encoding:
        head = heads.of(rendered, keep_spans) if heads is not None else None
        kept = conserve(
            rendered, inputs.leaves, self.bundle.profile, self.guards.spelled_in,
            lambda texts: self._marked(inputs, texts, counters), None if head is None else head.printed,
        )  # fmt: skip
        if self.whole:
            engine = self.bundle.engine
            assembled = assemble_parsed(kept.rendered, self.guards, engine, counters, keep_spans=keep_spans)
        else:
            assembled = assemble(kept.rendered, self.guards, cache, counters, keep_spans=keep_spans, heads=heads)
        return Encoding(kept.rendered, assembled, kept.lost, kept.detail_lost, kept.ambiguous)

    def _marked(self, inputs: TemplateInputs, texts: Mapping[Leaf, str], counters: Counters) -> str | None:
        """Render plainly with other texts for some leaves, None where the template raises on them."""
        counters.probe_renders += 1
        messages, tools = with_texts(inputs.messages, texts), with_texts(inputs.tools, texts)
        values = variables(messages, tools, inputs.options, self.bundle.manifest.variables, inputs.now)
        budget = output_budget(_characters(inputs) + sum(map(len, texts.values())))
        try:
            return render_plain(self.bundle.template_source, values, budget)
        except (TemplateFailure, OutputBudgetExceeded):
            return None

    def audit_due(self) -> bool:
        """Count a plan and tell whether it is one to be done again by slower ways."""
        self._plans += 1
        return self._plans % AUDIT_EVERY == 0

    def plain(self, inputs: TemplateInputs, counters: Counters) -> str:
        """Render the same inputs plainly, as an audit of the tracked render."""
        text = render_whole(self.bundle, inputs)
        counters.audit_renders += 1
        counters.audit_characters_rendered += len(text)
        return text

    def alone(self, text: str, counters: Counters) -> int:
        """Return how many tokens a text has when encoded by itself (carried form, design.md §2)."""
        return len(self.cache.encode(text, (len(text),), counters).ids) if text else 0

    def _values(self, inputs: TemplateInputs) -> dict[str, object]:
        return variables(inputs.messages, inputs.tools, inputs.options, self.bundle.manifest.variables, inputs.now)


def _characters(inputs: TemplateInputs) -> int:
    return sum(map(len, map(_text_of, inputs.leaves))) + 256 * len(inputs.messages)
