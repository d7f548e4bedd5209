"""The reference of a GGUF file: transformers' render of its template, its own tokenizer over the whole text."""

from __future__ import annotations

from pathlib import Path

from planner.bundles.bundle import FolderBundle
from tests.support.reference import ReferenceBundle
from tests.support.reference_tokenizers import StretchCache


class GgufReference(ReferenceBundle):
    """Renders as the file says; shares no rendering with the planner."""

    def __init__(self, path: Path, bundle: FolderBundle) -> None:
        """Take template and strings from the opened file."""
        super().__init__(path.parent, template=bundle.template_source, variables=bundle.variables)
        self.name = path.name
        encode = bundle.engine.encode_parsed
        self.__dict__["tokenizer"] = StretchCache(None, {}, lambda text: list(encode(text)), None)
