"""`planner bundle add`: a model folder, file or model of the hub becomes a pinned bundle of the user's own (R172).

What is read of it is copied, so that a download that is moved or changed later changes no plan; weights stay.
Everything is prepared beside its place, opened there as every bundle is, and then takes its place by one rename.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from planner.bundles.adapter import read_adapter_files
from planner.bundles.advice import advise
from planner.bundles.bundle import FolderBundle
from planner.bundles.digest import bundle_digest
from planner.bundles.foreign import cleanly
from planner.bundles.gguf import CUT_SHORT
from planner.bundles.hf_config import CONFIG, PROCESSOR_TEMPLATE, TEMPLATE_FILE
from planner.bundles.hf_folder import id_of, open_folder
from planner.bundles.hub import HubModel, fetch
from planner.bundles.manifest import MANIFEST_FILE, ManifestFile, dump_manifest, parse_manifest
from planner.bundles.open import admitted, opener_of, shipped_ids
from planner.bundles.provenance import Provenance
from planner.bundles.runtime_json import runtime_named
from planner.bundles.stage import Taken, overlay, put_template, read_template, stage, unread
from planner.bundles.user_folder import DEVICE, ID, Placed, Staged, place, staging
from planner.values.bundle import Adapter, Manifest
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to add: a model folder, a GGUF or LiteRT-LM file, or a model of the hub; None where nothing is said.

    template       a file whose text replaces the template of the model
    adapter        a PEFT folder or one file of weights, added by the runtime with `adapter_scale`
    context        tokens that prompt and answer share; at most what the files state
    endpoint       another address of the hub
    """

    model: Path | HubModel
    id: str | None = None
    template: Path | None = None
    runtime: str | None = None
    adapter: Path | None = None
    adapter_scale: float = 1.0
    context: int | None = None
    notes: tuple[str, ...] = ()
    replace: bool = False
    endpoint: str | None = None


@dataclass(frozen=True, slots=True)
class Added:
    """The bundle as it stands in the user's folder; `warnings` are lines for a person."""

    manifest: Manifest
    folder: Path
    placed: Placed
    bundle: FolderBundle

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was noticed, and the notes that were given."""
        return self.manifest.warnings


def add_bundle(wanted: Wanted, user_folder: Path, *, cache_dir: Path | None = None) -> Added:
    """Add a bundle to the user's folder; nothing is left of one that is refused.

    Raises bundle_exists, invalid-input (RefusalSignal) for an id or context that cannot be, and what opening
    the model raises: bundle_not_found, bundle_path, bundle_incomplete, bundle_unsafe, bundle_mismatch,
    tokenizer_failed, format_not_supported, template_rejected, template_content_dependent, file_not_readable.
    """
    return cleanly(lambda: _add(wanted, user_folder, cache_dir))


def _add(wanted: Wanted, user_folder: Path, cache_dir: Path | None) -> Added:
    if isinstance(wanted.model, Path) and not wanted.model.exists():
        raise PlannerFault("bundle_not_found", "the path of the model does not exist")
    bundle_id = _id(wanted)
    # What cannot be is said before anything is fetched or copied.
    runtime = None if wanted.runtime is None else runtime_named(wanted.runtime, "--runtime")
    template = None if wanted.template is None else read_template(wanted.template)
    adapter = None if wanted.adapter is None else read_adapter_files(wanted.adapter, wanted.adapter_scale)
    with staging(user_folder) as staged:
        taken, provenance = _taken(wanted, staged)
        warnings = list(taken.warnings)
        if wanted.adapter is not None and wanted.adapter.is_dir():
            warnings += overlay(wanted.adapter, staged, taken)
        if template is not None:
            put_template(staged, template)
        bundle = _opened(staged, taken, cache_dir)
        manifest = _manifest(wanted, bundle_id, (adapter, runtime), bundle, tuple(warnings))
        overlaid = tuple(one.path for one in manifest.files if taken.entries.get(one.path) != one)
        provenance = None if provenance is None else replace(provenance, overlaid=overlaid)
        made = ManifestFile(manifest, template_file=_template_file(manifest), provenance=provenance)
        # What is written must be what is read back: a field of another form is refused here, not at the first plan.
        parse_manifest(dump_manifest(made))
        for name in {entry.name for entry in staged.root.iterdir()} - {entry.path for entry in made.manifest.files}:
            staged.drop(name)
        staged.write(MANIFEST_FILE, dump_manifest(made))
        placed = place(staged, made, may_replace=wanted.replace)
    return Added(made.manifest, user_folder / bundle_id, placed, bundle)


def _taken(wanted: Wanted, staged: Staged) -> tuple[Taken, Provenance | None]:
    adapter = None if wanted.adapter is None else str(wanted.adapter.resolve())
    if isinstance(wanted.model, Path):
        path = str(wanted.model.resolve())
        printable = path.isprintable() and (adapter or "-").isprintable()
        return stage(wanted.model, staged), Provenance(path=path, adapter_path=adapter) if printable else None
    with staging(staged.user_folder) as downloads:
        fetched = fetch(wanted.model, downloads.root, endpoint=wanted.endpoint)
        taken = replace(stage(downloads.root, staged), warnings=unread(fetched.others))
    return taken, Provenance(
        repository=wanted.model.repository,
        revision=wanted.model.revision,
        commit=fetched.commit,
        adapter_path=adapter,
    )


def _id(wanted: Wanted) -> str:
    bundle_id = wanted.id
    if bundle_id is None:
        bundle_id = id_of(_name(wanted.model)).replace(":", "-").lstrip("._-")
    if not ID.fullmatch(bundle_id):
        raise RefusalSignal("invalid-input", "--id takes letters, digits, dots, dashes and underscores")
    if DEVICE.fullmatch(bundle_id):
        raise RefusalSignal("invalid-input", "--id is a name that not every system takes for a folder")
    if bundle_id.lower() in {name.lower() for name in shipped_ids()}:
        raise PlannerFault("bundle_exists", "a shipped bundle has this id; choose another with --id")
    return bundle_id


def _name(model: Path | HubModel) -> str:
    if isinstance(model, HubModel):
        return model.repository.partition("/")[2]
    place = model.resolve()
    if place.parent.name == "snapshots" and place.parents[1].name.startswith("models--"):
        # A hub cache names its folders by commit, and the model above them.
        return place.parents[1].name.rpartition("--")[2]
    return model.resolve().name.removesuffix(".gguf").removesuffix(".litertlm")


def _opened(staged: Staged, taken: Taken, cache_dir: Path | None) -> FolderBundle:
    """Open the copies as any model folder is opened, its self-test included."""
    if taken.whole is None:
        return admitted(open_folder(staged.root, cache_dir=cache_dir), cache_dir)
    path, outer = staged.root / taken.whole, TEMPLATE_FILE if (staged.root / TEMPLATE_FILE).is_file() else None
    return admitted(opener_of(path)(path, outer=outer, cache_dir=cache_dir), cache_dir)


def _manifest(
    wanted: Wanted,
    bundle_id: str,
    beside: tuple[Adapter | None, Runtime | None],
    bundle: FolderBundle,
    warnings: tuple[str, ...],
) -> Manifest:
    adapter, runtime = beside
    found = bundle.manifest
    context = found.context_tokens
    if wanted.context is not None:
        if context is not None and wanted.context > context:
            raise RefusalSignal("invalid-input", f"--context is above the {context} tokens that the files state")
        context = wanted.context
    own = tuple(line for line in found.warnings if line != CUT_SHORT)
    base = wanted.model.repository if isinstance(wanted.model, HubModel) else None
    manifest = replace(found, id=bundle_id, base_model=base, adapter=adapter, runtime=runtime, context_tokens=context)
    noticed = tuple(dict.fromkeys((*warnings, *own, *advise(bundle, manifest), *wanted.notes)))
    manifest = replace(manifest, warnings=noticed)
    return replace(manifest, digest=bundle_digest(manifest))


def _template_file(manifest: Manifest) -> str | None:
    if manifest.template_digest is None:
        return None
    names = {entry.path for entry in manifest.files}
    # A processor's template is read, and so among the files, only where no other file has one.
    for name in (TEMPLATE_FILE, PROCESSOR_TEMPLATE):
        if name in names:
            return name
    return CONFIG if CONFIG in names else manifest.files[0].path
