"""A bundle with a template that nobody has activated yet: opened, measured, and never trusted (R176)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from planner.bundles.bundle import FolderBundle
from planner.bundles.control_tokens import choose_control_tokens
from planner.bundles.foreign import cleanly
from planner.bundles.open import open_with_template
from planner.bundles.overlay import Overlay, with_template
from planner.values.activation import TemplateVersion
from planner.values.bundle import ControlToken
from planner.values.profile import TemplateProfile


def open_built_in(bundle_id: str, *, user_folder: Path | None, cache_dir: Path | None) -> FolderBundle:
    """Open a bundle named by id with its own template, whatever is activated. Raises what opening raises."""
    return cleanly(lambda: open_with_template(bundle_id, Overlay, user_folder=user_folder, cache_dir=cache_dir))


def open_candidate(
    bundle_id: str, template: TemplateVersion, text: str, *, user_folder: Path | None, cache_dir: Path | None
) -> tuple[FolderBundle, TemplateVersion]:
    """Open a bundle with a candidate template; return it with the version completed by digest and control tokens.

    The template is measured as an unknown one is, in a process with limits, and the self-test of its renders runs.
    Raises bundle_not_found, template_rejected, template_content_dependent, tokenizer_failed, and what opening raises.
    """

    def opened(version: TemplateVersion) -> FolderBundle:
        return open_with_template(
            bundle_id, lambda own: Overlay(with_template(own, version), text),
            user_folder=user_folder, cache_dir=cache_dir,
        )  # fmt: skip

    def both() -> tuple[FolderBundle, TemplateVersion]:
        # What a template writes is known once it was measured, and what it writes is part of the identity.
        trial = opened(template)
        full = replace(template, control_tokens=_written(trial, trial.measured_profile))
        bundle = opened(full)
        _ = bundle.profile
        return bundle, replace(full, bundle_digest=bundle.manifest.digest)

    return cleanly(both)


def _written(bundle: FolderBundle, profile: TemplateProfile) -> tuple[ControlToken, ...]:
    """Return the added tokens that the template writes and the manifest does not name."""
    from planner.encoding.template import literals

    texts = (*profile.template_literals, *literals(bundle.template_source))
    named = {token.text for token in bundle.manifest.control_tokens}
    found = choose_control_tokens(bundle.parts[0], dict(bundle.manifest.variables), texts)
    return tuple(token for token in found if token.text not in named)
