"""The reference of the parity tests: transformers' render, encoded by the bundle's own tokenizer file.

It shares no code with the planner. Rendering goes through transformers' compiled template with the
bundle's variables and a frozen clock; encoding through `reference_tokenizers`.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.support import reference_tokenizers
from tests.support.twin import Verdict, missing_pieces, twin_of

Message = dict[str, Any]
SENTINEL_LENGTH = 10**9


class CannotRender(Exception):  # noqa: N818 - an answer of the template, not a fault of the test
    """The template raised; `kind` is the class of what it raised."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def _plain(value: Any) -> Any:
    """A token of tokenizer_config.json is a string or an object that holds one."""
    return value.get("content") if isinstance(value, dict) else value


class ReferenceBundle:
    """One model folder as its publisher's own files describe it.

    folder        holds a tokenizer file, and tokenizer_config.json and/or chat_template.jinja
    template      text or path of another template (the shipped Mistral bundle brings its own)
    tokenizer     path of a tokenizer file that stands elsewhere
    variables     strings the template reads, over what the folder says
    prefix_space  rule of sentencepiece stretches, as the manifest names it
    context_tokens  context the manifest states, over what the folder says
    """

    def __init__(
        self,
        folder: Path,
        *,
        template: str | Path | None = None,
        tokenizer: Path | None = None,
        variables: Mapping[str, str] | None = None,
        prefix_space: str = "library",
        context_tokens: int | None = None,
    ) -> None:
        self.folder, self.name = folder, folder.name
        self._context_tokens = context_tokens
        self._tokenizer_path, self._prefix_space = tokenizer, prefix_space
        path = folder / "tokenizer_config.json"
        self.config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        self.template = self._find_template(template)
        self.variables = {**self._own_variables(), **(variables or {})}

    def _find_template(self, given: str | Path | None) -> str | None:
        if isinstance(given, Path):
            return given.read_text(encoding="utf-8")
        if given is not None:
            return given
        file = self.folder / "chat_template.jinja"
        if file.is_file():
            return file.read_text(encoding="utf-8")
        stated = self.config.get("chat_template")
        if isinstance(stated, list):
            stated = {entry["name"]: entry["template"] for entry in stated}.get("default")
        return stated

    def _own_variables(self) -> dict[str, str]:
        named = {
            key: _plain(value) for key, value in self.config.items()
            if key.endswith("_token") and isinstance(_plain(value), str)
        }  # fmt: skip
        # A tekken or sentencepiece folder without a config: the library fixes these two names itself.
        return {"bos_token": "<s>", "eos_token": "</s>", **named} if not self.config else named

    @property
    def context_tokens(self) -> int | None:
        """Context the folder states, or None where it says nothing usable."""
        stated = self._context_tokens or self.config.get("model_max_length")
        return stated if isinstance(stated, int) and 0 < stated < SENTINEL_LENGTH else None

    @cached_property
    def tokenizer(self) -> reference_tokenizers.StretchCache:
        """The tokenizer, loaded at first use."""
        path = self._tokenizer_path
        if path is None:
            return reference_tokenizers.load(self.folder, self.config, self._prefix_space)
        if path.name.startswith("tekken"):
            return reference_tokenizers.from_tekken(path)
        if path.suffix == ".json":
            return reference_tokenizers.from_tokenizer_json(path)
        return reference_tokenizers.from_sentencepiece(path, self._prefix_space)

    def render(
        self, messages: Sequence[Message], tools: Sequence[Any] | None = None,
        *, now: str | None = None, generate: bool = True, **options: Any,
    ) -> str:  # fmt: skip
        """Return the prompt text. `now` is an RFC 3339 instant, the epoch if absent.

        Raises CannotRender for whatever the template raises.
        """
        from transformers.utils import chat_template_utils as engine

        assert self.template is not None, "this folder has no chat template"
        instant = datetime.fromisoformat(now) if now else datetime(1970, 1, 1, tzinfo=UTC)
        try:
            compiled = engine._compile_jinja_template(self.template)
            compiled.environment.globals["strftime_now"] = instant.strftime
            rendered = engine.render_jinja_template(
                [list(messages)], tools=list(tools) if tools else None, chat_template=self.template,
                add_generation_prompt=generate, **{**self.variables, **options},
            )  # fmt: skip
        except Exception as error:
            raise CannotRender(type(error).__name__) from None
        texts = rendered[0] if isinstance(rendered, tuple) else rendered
        return str(texts[0])

    def encode(self, text: str) -> list[int]:
        """Return the ids of a prompt text: control strings parsed, none added."""
        return self.tokenizer.encode(text)

    def encode_text(self, text: str) -> list[int]:
        """Return the ids of ordinary text alone, as one stretch (the carried form counts so)."""
        return self.tokenizer.encode(text)

    def ids(self, messages: Sequence[Message], tools: Sequence[Any] | None = None, **options: Any) -> list[int]:
        """Return the ids of the rendered list. Raises CannotRender."""
        return self.encode(self.render(messages, tools, **options))

    def carries(self, messages: Sequence[Message], tools: Sequence[Any] | None = None, **options: Any) -> Verdict:
        """Tell which pieces of this list the template loses, by rendering a twin with unique markers.

        The twin has the same roles, the same empty and whitespace-only texts, the same calls, keys and
        reasoning; every other text is one marker word. So a piece that is dropped is never mistaken for
        kept because the same words stand elsewhere.
        """
        twin = twin_of(messages, tools)
        try:
            text = self.render(twin.messages, twin.tools, **options)
        except CannotRender as failure:
            return Verdict(raised=failure.kind)
        return Verdict(missing=missing_pieces(twin, text))


def shipped_reference(root: Path, name: str) -> ReferenceBundle:
    """Open a shipped bundle: files of `root`/<name>, or of the installed distribution its manifest names.

    Raises importlib.metadata.PackageNotFoundError where that distribution is not installed.
    """
    folder = root / name
    manifest = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    origin, own = manifest.get("origin") or {}, folder
    if "distribution" in origin:
        own = Path(str(importlib.metadata.distribution(origin["distribution"]).locate_file(origin["folder"])))
    paths = [
        (folder if entry.get("place", "origin") == "folder" else own) / entry["path"] for entry in manifest["files"]
    ]
    kinds = ("tokenizer.json", "tekken", "vocab.json")
    tokenizer = next((path for path in paths if path.name.startswith(kinds)), None)
    template = next((path for path in paths if path.suffix == ".jinja"), None)
    made = ReferenceBundle(
        own, template=template, tokenizer=tokenizer, variables=manifest.get("variables") or {},
        context_tokens=manifest.get("contextTokens"),
    )  # fmt: skip
    made.name = name
    return made


def bundles_below(root: Path) -> list[str]:
    """List the folders below `root` that hold both a tokenizer file and a template, sorted by name."""
    found = []
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        names = {path.name for path in folder.iterdir()}
        encodes = names & {"tokenizer.json", "vocab.json", "tekken.json"} or list(folder.glob("*.model*"))
        if not encodes:
            continue
        config = folder / "tokenizer_config.json"
        stated = config.is_file() and "chat_template" in json.loads(config.read_text(encoding="utf-8"))
        if "chat_template.jinja" in names or stated:
            found.append(folder.name)
    return found
