"""A model bundle: a tokenizer, a template and the manifest over both. Everything costly is done once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from planner.bundles.digest import bundle_digest, text_digest
from planner.bundles.foreign import cleanly
from planner.bundles.hf_config import FolderConfig
from planner.bundles.loaded import Loaded
from planner.values.bundle import Engine, Manifest
from planner.values.profile import TemplateProfile
from planner.values.reasons import PlannerFault


class FolderBundle:
    """The Bundle port over files. Safe to share between threads."""

    def __init__(
        self,
        load: Callable[[], tuple[Loaded, FolderConfig]],
        manifest: Manifest | None,
        make_manifest: Callable[[FolderBundle], Manifest] | None = None,
        *,
        cache_dir: Path | None = None,
        reviewed: bool = False,
        admit: Callable[[FolderBundle], object] | None = None,
    ) -> None:
        """Take what loads the files; a manifest that is None is made by `make_manifest` at first use.

        cache_dir  where measured profiles are kept; `reviewed` is true for a shipped manifest, whose
        template is measured without the limits for unknown ones. `admit` is called once before the
        template's profile is given out; what it raises, the profile raises.
        """
        self._load = load
        self._manifest = manifest
        self._make_manifest = make_manifest
        self._cache_dir = cache_dir
        self._reviewed = reviewed
        self._admit = admit
        self._admitting = False
        self._load_config: Callable[[], FolderConfig] | None = None
        self._config: FolderConfig | None = None
        self._fast: Engine | None = None
        self._parts: tuple[Loaded, FolderConfig] | None = None
        self._engine: Engine | None = None
        self._profile: TemplateProfile | None = None
        self._choose: Callable[[str | None], FolderBundle] | None = None
        self._source: str | None = None
        self._lock = threading.RLock()

    def for_apps(self, choose: Callable[[str | None], FolderBundle]) -> None:
        """Keep what tells which bundle an app of a version gets, where templates are activated for some."""
        self._choose = choose

    def for_app(self, app_version: str | None) -> FolderBundle:
        """Return the bundle that an app of this version plans with: this one, or one with another template (R177)."""
        chosen = self if self._choose is None else self._choose(app_version)
        if self._fast is not None and chosen._fast is None:
            chosen.use_fast_engine()
        return chosen

    @property
    def makes_manifest(self) -> bool:
        """Whether the manifest is made from the files, not stated by a bundle.json."""
        return self._make_manifest is not None

    def encode_whole(self) -> None:
        """Put the manifest made for a folder into encode mode `whole`: another mode is another bundle."""
        changed = replace(self.manifest, encode_mode="whole", digest="")
        self._manifest = replace(changed, digest=bundle_digest(changed))

    @property
    def parts(self) -> tuple[Loaded, FolderConfig]:
        """The tokenizer as read and the folder's configuration; loads at first use."""
        if self._parts is None:
            with self._lock:
                if self._parts is None:
                    self._parts = cleanly(self._load)
        return self._parts

    @property
    def manifest(self) -> Manifest:
        """Identity and declared figures."""
        if self._manifest is None:
            with self._lock:
                if self._manifest is None:
                    assert self._make_manifest is not None, "a bundle needs a manifest or its maker"
                    self._manifest = self._make_manifest(self)
        return self._manifest

    @property
    def config(self) -> FolderConfig:
        """The folder's configuration, without its tokenizer where that is possible."""
        if self._parts is not None or self._load_config is None:
            return self.parts[1]
        if self._config is None:
            self._config = cleanly(self._load_config)
        return self._config

    def reads_config_by(self, load: Callable[[], FolderConfig]) -> None:
        """Take what reads the configuration without the tokenizer, for a fast engine that needs none."""
        self._load_config = load

    def use_fast_engine(self) -> None:
        """Encode by the fast engine from now on; the exact one stays for all that it does not do.

        Raises engine_not_admitted, environment, and what loading raises.
        """
        from planner.bundles.fast_admission import fast_engine

        with self._lock:
            self._fast = cleanly(lambda: fast_engine(self, self._cache_dir))

    @property
    def engine(self) -> Engine:
        """The tokenizer with its control tokens switched off. Raises what loading raises."""
        return self._fast if self._fast is not None else self.exact_engine

    @property
    def exact_engine(self) -> Engine:
        """The engine that is the truth, whichever is used. Raises what loading raises."""
        if self._engine is None:
            with self._lock:
                if self._engine is None:
                    self._engine = cleanly(self._made_engine)
        return self._engine

    def _made_engine(self) -> Engine:
        return self.parts[0].make_engine(self.manifest.control_tokens)

    @property
    def template_source(self) -> str:
        """The chat template's text, compared with the manifest once. Raises bundle_has_no_template, bundle_mismatch."""
        if self._source is not None:
            return self._source
        template = self.config.template
        if template is None:
            raise PlannerFault("bundle_has_no_template", "the folder holds no chat template; it can only count")
        wanted = None if self._manifest is None else self._manifest.template_digest
        if wanted is not None and text_digest(template) != wanted:
            raise PlannerFault("bundle_mismatch", "the chat template differs from the manifest")
        if self._manifest is not None:
            self._source = template
        return template

    @property
    def variables(self) -> dict[str, str]:
        """The strings the template reads, such as `bos_token`: the file's own, then the configuration's."""
        loaded, config = self.parts
        return {**loaded.variables, **config.tokens}

    @property
    def profile(self) -> TemplateProfile:
        """The measured template profile. Raises bundle_has_no_template, template_rejected, what `admit` raises."""
        if self._profile is None or self._admit is not None:
            with self._lock:
                _ = self.measured_profile
                if self._admit is not None and not self._admitting:
                    self._admitting = True
                    try:
                        self._admit(self)
                        self._admit = None
                    finally:
                        self._admitting = False
        return self.measured_profile

    @property
    def measured_profile(self) -> TemplateProfile:
        """The measured profile before the bundle is admitted. Raises bundle_has_no_template, template_rejected."""
        with self._lock:
            if self._profile is None:
                self._profile = cleanly(self._measured)
        return self._profile

    def _measured(self) -> TemplateProfile:
        from planner.bundles.probe import profile_for

        source = self.template_source
        stated = self._manifest
        variables = self.variables if stated is None else dict(stated.variables)
        profile = profile_for(source, variables, cache_dir=self._cache_dir, trusted=self._reviewed)
        if stated is not None and stated.rewrites:
            profile = replace(profile, rewrites=stated.rewrites)
        return profile

    @property
    def text_tokens(self) -> tuple[str, ...]:
        """Added tokens that are ordinary text here, by id: what content may spell and the library matches."""
        controls = {token.text for token in self.manifest.control_tokens}
        rows = sorted(self.parts[0].added, key=lambda token: token.id)
        return tuple(token.text for token in rows if token.text not in controls)
