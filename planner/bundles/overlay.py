"""Which template a bundle named by id is opened with: the activated one, or its own with the reason (R177)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from planner.bundles.activated import STATE_FILE, read_state, read_template
from planner.bundles.bundle import FolderBundle
from planner.bundles.digest import bundle_digest, sha256_hex
from planner.bundles.files import parse_text
from planner.values.activation import TemplateVersion
from planner.values.app_version import Bounds, outside
from planner.values.bundle import Manifest
from planner.values.reasons import PlannerFault


@dataclass(frozen=True, slots=True)
class Overlay:
    """A manifest and the template text that stands for its own; None leaves the bundle's."""

    manifest: Manifest
    template: str | None = None


def with_template(manifest: Manifest, template: TemplateVersion) -> Manifest:
    """Return the manifest of a bundle with another template: another digest, the same tokenizer."""
    named = {token.text for token in manifest.control_tokens}
    added = tuple(token for token in template.control_tokens if token.text not in named)
    changed = replace(
        manifest,
        template_digest=template.sha256,
        template_entry=template.entry,
        template_version=template.version,
        app_versions=(template.min_app, template.max_app),
        control_tokens=(*manifest.control_tokens, *added),
    )
    return replace(changed, digest=bundle_digest(changed))


@dataclass(frozen=True, slots=True)
class Activation:
    """What is activated for a bundle, read once.

    built_in  the manifest with the bundle's own template.
    within    what an app within the bounds gets: the activated template, or the built-in one with the reason.
    """

    built_in: Manifest
    within: Overlay
    bounds: Bounds = (None, None)

    def overlay_for(self, app_version: str | None) -> Overlay:
        """Return what an app of this version plans with."""
        reason = outside(app_version, self.bounds)
        return self.within if reason is None else _built_in(self.built_in, reason)


def read_activation(manifest: Manifest, folder: Path) -> Activation:
    """Read what is activated for a bundle; `folder` is the user's folder of it, `manifest` that of the built-in.

    Never raises for a record or template that cannot be used: the built-in one stands in, and the manifest says why.
    """
    try:
        state = read_state(folder)
    except PlannerFault:
        return Activation(manifest, _built_in(manifest, "template_state_damaged"))
    if state is None or state.active is None:
        return Activation(manifest, Overlay(manifest))
    if state.base_digest != manifest.digest or state.model_bundle_id != manifest.id:
        return Activation(manifest, _built_in(manifest, "template_base_changed"))
    template = state.active
    return Activation(manifest, _activated(manifest, template, folder), (template.min_app, template.max_app))


def _activated(manifest: Manifest, template: TemplateVersion, folder: Path) -> Overlay:
    try:
        data = read_template(folder, template.sha256)
        text = parse_text(data, "the activated template")
    except PlannerFault as fault:
        return _built_in(manifest, "template_altered" if fault.code == "bundle_unsafe" else "template_missing")
    changed = with_template(manifest, template)
    if sha256_hex(data) != template.sha256 or changed.digest != template.bundle_digest:
        return _built_in(manifest, "template_altered")
    return Overlay(changed, text)


def _built_in(manifest: Manifest, reason: str) -> Overlay:
    return Overlay(replace(manifest, template_fallback=reason))


def opened_for_apps(
    manifest: Manifest, folder: Path, open_with: Callable[[Overlay], FolderBundle], *, bare: Callable[[], FolderBundle]
) -> FolderBundle:
    """Return a bundle that gives each app's version its template; `bare` opens it where nothing was ever activated.

    The record is read here and not again: whoever holds the bundle keeps its templates, whatever is decided later.
    """
    if not (folder / STATE_FILE).exists():
        return bare()
    activation = read_activation(manifest, folder)
    opened: dict[str, FolderBundle] = {}
    lock = threading.Lock()

    def choose(app_version: str | None) -> FolderBundle:
        overlay = activation.overlay_for(app_version)
        # Which of the two it is, and why: one bundle is loaded for each, however many versions ask.
        name = overlay.manifest.template_fallback or overlay.manifest.digest
        with lock:
            if name not in opened:
                opened[name] = open_with(overlay)
                opened[name].for_apps(choose)
            return opened[name]

    return choose(None)
