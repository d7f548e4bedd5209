"""Fetching a model's small files from the hub, once, by commit and digest: the only home of huggingface_hub.

Used by `planner bundle add` alone; nothing is fetched where a plan is made. Only names that a tokenizer, a
template or a configuration has are downloaded, and each is compared with the digest that the hub states.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.bundles.files import MAX_TOKENIZER_BYTES
from planner.bundles.hf_folder import CONFIG_FILES
from planner.bundles.provenance import COMMIT, REPOSITORY
from planner.bundles.registry import choose_format
from planner.values.reasons import PlannerFault, RefusalSignal

if TYPE_CHECKING:
    from types import ModuleType

PREFIX = "hf:"
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
_DENIED = frozenset({401, 403})


@dataclass(frozen=True, slots=True)
class HubModel:
    """A repository of models and a revision of it: a branch, a tag or a commit."""

    repository: str
    revision: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was downloaded of which commit; `others` are the names that were left where they are."""

    model: HubModel
    commit: str
    others: frozenset[str]


def parse_hub(text: str) -> HubModel | None:
    """Take `hf:owner/name@revision` apart; None for a text without the prefix. Raises invalid-input.

    >>> parse_hub("hf:owner/name@main")
    HubModel(repository='owner/name', revision='main')
    """
    if not text.startswith(PREFIX):
        return None
    repository, _, revision = text[len(PREFIX) :].partition("@")
    revision = revision or "main"
    if not REPOSITORY.fullmatch(repository) or not _REVISION.fullmatch(revision) or ".." in text:
        raise RefusalSignal("invalid-input", "a model of the hub is named hf:owner/name@revision")
    return HubModel(repository, revision)


def fetch(model: HubModel, into: Path, *, endpoint: str | None = None) -> Fetched:
    """Download the files a bundle is made of into a folder; a branch or tag is resolved to its commit first.

    endpoint  another address of the hub's interface; None takes the library's own (HF_ENDPOINT)

    Raises environment (the library is absent), bundle_not_found, hub_failed, bundle_incomplete,
    format_not_supported, bundle_unsafe (a file beyond its bound), bundle_mismatch.
    """
    hub = _library()
    with _quiet(hub), _answered(hub):
        info = hub.HfApi(endpoint=endpoint).model_info(
            model.repository, revision=model.revision, files_metadata=True, timeout=30
        )
    commit = str(info.sha)
    if not COMMIT.fullmatch(commit):
        raise PlannerFault("hub_failed", "the hub names no commit")
    files = {one.rfilename: one for one in info.siblings or () if "/" not in one.rfilename}
    present = frozenset(files)
    if any(name.lower().endswith(".gguf") for name in present) and "tokenizer.json" not in present:
        raise PlannerFault("format_not_supported", "a repository of GGUF files; download the file and name its path")
    _, names = choose_format(present)
    chosen = sorted({*names, *(present & CONFIG_FILES)})
    for name in chosen:
        if not 0 <= (files[name].size or 0) <= MAX_TOKENIZER_BYTES:
            raise PlannerFault("bundle_unsafe", f"{name} is larger than {MAX_TOKENIZER_BYTES} bytes")
    for name in chosen:
        with _quiet(hub), _answered(hub):
            hub.hf_hub_download(
                model.repository, name, revision=commit, local_dir=into, endpoint=endpoint, force_download=True
            )
        _compare(into / name, files[name])
    return Fetched(model, commit, present - frozenset(chosen))


def _library() -> ModuleType:
    try:
        import huggingface_hub
        import huggingface_hub.errors
        import huggingface_hub.utils.logging
    except ImportError:
        raise PlannerFault("environment", 'run: pip install "context-planner[hub]"') from None
    return huggingface_hub


@contextmanager
def _quiet(hub: Any) -> Iterator[None]:
    """Draw no bars and log no lines meanwhile: stderr holds one line of ours or none."""
    logging, utils = hub.utils.logging, hub.utils
    level, drawn = logging.get_verbosity(), not utils.are_progress_bars_disabled()
    logging.set_verbosity(100)
    if drawn:
        utils.disable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if drawn:
            utils.enable_progress_bars()


@contextmanager
def _answered(hub: Any) -> Iterator[None]:
    """Turn what the library raises into a fault of ours, without its words: they hold addresses."""
    fault: PlannerFault | None = None
    try:
        yield
    except hub.errors.GatedRepoError:
        fault = PlannerFault("hub_failed", "the hub denies access; log in to it")
    except (hub.errors.RepositoryNotFoundError, hub.errors.RevisionNotFoundError, hub.errors.EntryNotFoundError):
        fault = PlannerFault("bundle_not_found", "the hub has no such repository, revision or file, or hides it")
    except Exception as error:
        # Whatever the library and the network library under it raise ends here; neither's words are shown.
        status = getattr(getattr(error, "response", None), "status_code", None)
        said = "denies access; log in to it" if status in _DENIED else "cannot be reached or answers otherwise"
        fault = PlannerFault("hub_failed", f"the hub {said}")
    if fault is not None:
        raise fault


def _compare(path: Path, stated: Any) -> None:
    """Compare a downloaded file with what the hub states: its sha256, or the digest git names it by."""
    try:
        data = path.read_bytes()
    except OSError:
        raise PlannerFault("hub_failed", "a downloaded file cannot be read") from None
    if stated.lfs is not None:
        same = hashlib.sha256(data).hexdigest() == stated.lfs.sha256
    else:
        same = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() == stated.blob_id
    if not same:
        raise PlannerFault("bundle_mismatch", f"{path.name} differs from the digest that the hub states")
