"""A bundle as one runtime runs it: its own files, and a runtime of the reviewed table in its manifest."""

from __future__ import annotations

from dataclasses import replace

from planner.values.bundle import Bundle, Engine, Manifest
from planner.values.profile import TemplateProfile
from planner.values.runtime import Runtime
from planner.values.runtime_rows import RUNTIMES


class Deployed:
    """Everything of a bundle but its manifest's runtime and tiers."""

    def __init__(self, bundle: Bundle, name: str, context: int) -> None:
        """Name an engine of the table, in the version it was reviewed for, started with `context` tokens."""
        self._bundle = bundle
        runtime = Runtime(RUNTIMES[name], RUNTIMES[name].versions[0], context_tokens=context)
        self.manifest: Manifest = replace(bundle.manifest, runtime=runtime, tiers=())

    @property
    def engine(self) -> Engine:
        """The tokenizer."""
        return self._bundle.engine

    @property
    def template_source(self) -> str:
        """The template."""
        return self._bundle.template_source

    @property
    def profile(self) -> TemplateProfile:
        """Its profile."""
        return self._bundle.profile
