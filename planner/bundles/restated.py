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
    return _PerApp(bundle, runtime=replace(runtime, profile=replace(runtime.profile, accepts_ids=True)))


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


class _PerApp(Restated):
    """The same over a bundle that gives each app's version its template (R177)."""

    def __init__(self, bundle: Bundle, **changes: Any) -> None:
        super().__init__(bundle, **changes)
        self._changes = changes
        self._chosen: dict[int, _PerApp] = {}

    def for_app(self, app_version: str | None) -> _PerApp:
        """Return what an app of this version plans with, the same figures changed."""
        choose = getattr(self._bundle, "for_app", None)
        chosen = self._bundle if choose is None else choose(app_version)
        if chosen is self._bundle:
            return self
        # One for each bundle, which it keeps alive: planners tell bundles apart by their address.
        return self._chosen.setdefault(id(chosen), _PerApp(chosen, **self._changes))
