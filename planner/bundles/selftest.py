"""The self-test of a bundle at admission: is its tokenizer whole, may its renders be cut, do owners hold?

The short one runs once when a folder is first opened and is remembered by the bundle's digest; the full one is
`planner bundle check` (facts-encoding.md §4). It is our own text and our own chats: a detail never holds a
text of the bundle.
"""

from __future__ import annotations

import hashlib
import json
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from planner.bundles.bundle import FolderBundle
from planner.bundles.control_tokens import encode_mode
from planner.bundles.kept import keep, read_kept
from planner.bundles.loaded import MIN_VOCABULARY, Loaded
from planner.values.bundle import ControlToken, EncodeMode, Engine
from planner.values.reasons import PlannerFault

SELFTEST_VERSION = "1"
"""Raised with every change of what a check means: kept results of another version are not read."""
SHORT_CHATS, FULL_CHATS = 6, 200
SHORT_DIRTY = 12
SPLIT = "ids of a cut render are the file's own"

SAMPLES = (
    "The quick brown fox, 42 of them.",
    "  leading and  double spaces\n\tand a tab",
    "夜班马上开始。Größe 3 µm, naïve café",
    "مرحبا สวัสดี नमस्ते 👩‍👩‍👧‍👦",
    "def f(x):\n    return {'a': x}\n\n\n",
    "e\u0301 and \u1112\u1161\u11ab, \r\n and \u200b",
)


@dataclass(frozen=True, slots=True)
class SelfTestCheck:
    """One named check over `count` experiments; `code` is what a failed one is refused with.

    A check that is not `required` only says what a plan will cost or refuse.
    """

    name: str
    passed: bool
    count: int
    detail: str = ""
    required: bool = True
    code: str = "tokenizer_failed"


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What a self-test found. `encode_mode` is the mode in which the bundle is exact.

    `remembered` is true where the short test of an earlier opening was read back.
    """

    bundle_digest: str
    full: bool
    encode_mode: EncodeMode
    checks: tuple[SelfTestCheck, ...]
    remembered: bool = False

    @property
    def failed(self) -> tuple[SelfTestCheck, ...]:
        """The required checks that did not pass; cutting is none where the whole render is encoded."""
        return tuple(
            check
            for check in self.checks
            if check.required and not check.passed and (check.name != SPLIT or self.encode_mode == "runs")
        )


_memory: dict[str, SelfTest] = {}
_MEMORY_ENTRIES = 256


def admit(bundle: FolderBundle, *, full: bool = False, cache_dir: Path | None = None) -> SelfTest:
    """Run the self-test of a bundle, the short one once for its digest, and return what it found.

    full       every control token and 200 chats instead of 12 and 6; never read from a cache
    cache_dir  where passed short tests are kept between processes; None keeps none on disk

    Raises PlannerFault tokenizer_failed or template_rejected with the name of the first required check that
    failed, and what loading the bundle raises.
    """
    key = selftest_key(bundle)
    known = None if full else _memory.get(key) or _read_cache(cache_dir, key, bundle)
    if known is None:
        known = selftest(bundle, full=full)
        if not full and not known.failed:
            keep(cache_dir, f"selftest-{key}", _as_json(known))
    if not full and not known.failed:
        if len(_memory) >= _MEMORY_ENTRIES:
            _memory.clear()
        _memory[key] = known
    for check in known.failed:
        raise PlannerFault(check.code, f"self-test: {check.name}: {check.detail}")
    return known


def selftest(bundle: FolderBundle, *, full: bool = False) -> SelfTest:
    """Run every check and refuse nothing; a folder without template gets the tokenizer's checks alone.

    Raises what loading the bundle raises.
    """
    checks = [*_tokenizer_checks(bundle, full=full)]
    mode = bundle.manifest.encode_mode
    if bundle.manifest.template_digest is not None and not any(one.required and not one.passed for one in checks):
        from planner.bundles.selftest_chats import chat_checks

        checks += chat_checks(bundle, full=full)
        if any(one.name == SPLIT and not one.passed for one in checks) and mode == "runs":
            # Where cuts are wrong the whole render is encoded; a manifest that says otherwise is refused.
            mode = "whole" if bundle.makes_manifest else mode
    forget = getattr(bundle.engine, "forget_oracle", None)
    if forget is not None:
        forget()
    return SelfTest(bundle.manifest.digest, full, mode, tuple(checks))


def _tokenizer_checks(bundle: FolderBundle, *, full: bool) -> Iterator[SelfTestCheck]:
    loaded, engine, controls = bundle.parts[0], bundle.engine, bundle.manifest.control_tokens
    enough = engine.vocab_size >= MIN_VOCABULARY
    yield SelfTestCheck("vocabulary is above the floor", enough, engine.vocab_size, f"of {MIN_VOCABULARY}")
    moved = sum(loaded.lookup(token.text) != token.id for token in loaded.added)
    moved += sum(loaded.lookup(token.text) != token.id for token in controls)
    moved += sum(engine.decode([token.id]) != token.text for token in controls)
    yield SelfTestCheck(
        "added tokens keep their ids", not moved, len(loaded.added) + len(controls), _some(moved, "moved")
    )
    yield _flags(loaded, bundle)
    silent = sum(not len(engine.encode(text).ids) for text in SAMPLES)
    yield SelfTestCheck("text has tokens", not silent, len(SAMPLES), _some(silent, "samples have none"))
    yield _round_trip(bundle)
    yield _control_strings(engine, controls if full else spread(controls, SHORT_DIRTY), controls)


def _flags(loaded: Loaded, bundle: FolderBundle) -> SelfTestCheck:
    """Compare the mode with what the flags of the control tokens allow."""
    controls = bundle.manifest.control_tokens
    by_text = {token.text: token.control() for token in loaded.added}
    differ = sum(by_text.get(token.text, token) != token for token in controls)
    cut = bundle.manifest.encode_mode == "runs" and encode_mode(loaded, controls) != "runs"
    detail = _some(differ, "differ from the file") or ("renders may not be cut at them" if cut else "")
    return SelfTestCheck("flags of control tokens allow the encode mode", not detail, len(controls), detail)


def _round_trip(bundle: FolderBundle) -> SelfTestCheck:
    """Decode what was encoded: required where each token stands for a bounded stretch of the text itself."""
    engine = bundle.engine
    # A tokenizer that puts a space before its first stretch need not take it away again when it decodes.
    spaced = bundle.manifest.encode_mode == "whole" or bundle.manifest.prefix_space is not None
    changed = 0
    for text in SAMPLES:
        back = engine.decode(list(engine.encode(text).ids))
        if spaced and not text.startswith(" "):
            back = back.removeprefix(" ")
        changed += unicodedata.normalize("NFC", back) != unicodedata.normalize("NFC", text)
    # Planning never decodes: a file without the part that does is not damaged, its text cannot be compared.
    required = bundle.manifest.longest_token_bytes is not None and getattr(engine, "decodes", True)
    detail = _some(changed, "samples are rewritten")
    return SelfTestCheck("text comes back as it was", not changed, len(SAMPLES), detail, required)


def _control_strings(engine: Engine, chosen: Sequence[ControlToken], controls: Sequence[ControlToken]) -> SelfTestCheck:
    forbidden = {token.id for token in controls}
    leaks = sum(
        not forbidden.isdisjoint(engine.encode(text).ids)
        for token in chosen
        for text in (token.text, f"a {token.text} b", token.text * 2)
    )
    return SelfTestCheck("control strings stay text", not leaks, len(chosen), _some(leaks, "texts became control"))


def spread(tokens: Sequence[ControlToken], count: int) -> Sequence[ControlToken]:
    """Take so many tokens from all over the list, the first ones and the last among them."""
    if len(tokens) <= count:
        return tokens
    step = (len(tokens) - 1) / (count - 1)
    return [tokens[round(index * step)] for index in range(count)]


def _some(count: int, what: str) -> str:
    return f"{count} {what}" if count else ""


def selftest_key(bundle: FolderBundle) -> str:
    """Return what a result is remembered by: the bundle's digest, this test's version, the libraries'."""
    names = ("tokenizers", "sentencepiece", "tiktoken")
    versions = [getattr(sys.modules.get(name), "__version__", None) for name in names]
    told = json.dumps([SELFTEST_VERSION, bundle.manifest.digest, versions])
    return hashlib.sha256(told.encode()).hexdigest()


def _read_cache(cache_dir: Path | None, key: str, bundle: FolderBundle) -> SelfTest | None:
    value = read_kept(cache_dir, f"selftest-{key}")
    with suppress(ValueError, TypeError, KeyError):
        checks = tuple(SelfTestCheck(**row) for row in value["checks"])
        mode: EncodeMode = "whole" if value["mode"] == "whole" else "runs"
        found = SelfTest(bundle.manifest.digest, False, mode, checks, remembered=True)
        return None if found.failed or not checks else found
    return None


def _as_json(found: SelfTest) -> dict[str, Any]:
    return {"mode": found.encode_mode, "checks": [asdict(check) for check in found.checks]}
