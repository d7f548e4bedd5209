"""A bundle seen with another manifest over the same files: for counting, never for a plan that is run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.values.bundle import Bundle, Engine
from planner.values.profile import TemplateProfile


def measurable(bundle: Bundle) -> Bundle:
    """Return the bundle as one whose plans have ids to look at, also where its runtime takes none."""
    runtime = bundle.manifest.runtime
    if runtime is None or runtime.profile.accepts_ids:
        return bundle
    return Restated(bundle, runtime=replace(runtime, profile=replace(runtime.profile, accepts_ids=True)))


class Restated:
    """The Bundle port over another bundle, some declared figures changed."""

    def __init__(self, bundle: Bundle, **changes: Any) -> None:
        """Take the bundle and the fields of its manifest to change."""
        self._bundle = bundle
        self.manifest = replace(bundle.manifest, **changes)

    @property
    def engine(self) -> Engine:
        """The tokenizer."""
        return self._bundle.engine

    @property
    def template_source(self) -> str:
        """The chat template's text."""
        return self._bundle.template_source

    @property
    def profile(self) -> TemplateProfile:
        """The measured template profile."""
        return self._bundle.profile
