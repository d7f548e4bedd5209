"""An upper bound of the tokens of any text, by what the tokenizer does before it counts (field-notes.md M6).

Every token stands for at least one byte of the text that the normaliser leaves, or for the space mark put in front:
a merge joins symbols and never splits one, and an unknown character is one token or its bytes. On the raw text this
is false: NFC makes three characters out of U+1D161's one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.bundles.loaded import Loaded
from planner.values.bundle import Manifest
from planner.values.text_bound import TextBound

SPACE_MARK = "▁"
_GROWTH = {"none": 1, "NFC": 3, "NFD": 3, "NFKC": 11, "NFKD": 11}
"""Most UTF-8 bytes for a byte of input, in every version of Unicode (its standard annex 15)."""
_INSERTS_NOTHING = frozenset({"Split", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "BertPreTokenizer"})


def forms_of(normalizer: Sequence[Mapping[str, Any]], pre_tokenizer: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Name what a tokenizer's components do to the bytes of a text, in their order.

    A form of Unicode by its name; `space_mark` where a space becomes a mark; the component's own name for anything
    whose bytes are not known. The prefix is left out: the manifest states it.
    """
    found: list[str] = []
    for part in normalizer:
        kind = str(part.get("type"))
        spaced = kind == "Replace" and part.get("pattern") == {"String": " "} and part.get("content") == SPACE_MARK
        if spaced or (kind == "Prepend" and part.get("prepend") == SPACE_MARK):
            found.append("space_mark")
        elif kind != "Sequence":
            found.append(kind)
    before = 0
    for part in pre_tokenizer:
        kind = str(part.get("type"))
        adds = bool(part.get("add_prefix_space")) or part.get("prepend_scheme") in ("always", "first")
        if kind == "Metaspace":
            found.append("space_mark")
        elif kind not in ("Sequence", "ByteLevel", *_INSERTS_NOTHING):
            found.append(kind)
        if adds and before:
            found.append(f"{kind} inside")
        before += kind != "Sequence"
    return tuple(dict.fromkeys(found))


def text_bound(loaded: Loaded, manifest: Manifest) -> TextBound:
    """Return the bound of one stretch of text by itself; `proven` is false where the normaliser is of another kind.

    Raises PlannerFault bundle_unsafe for rules of a file that cannot be read.
    """
    forms = [form for form in loaded.forms if form != "space_mark"]
    form = forms[0] if forms else "none"
    marked = "space_mark" not in loaded.forms or loaded.lookup(SPACE_MARK) is not None
    factor = _GROWTH.get(form) if form != "charsmap" or loaded.growth is None else loaded.growth()
    proven = marked and len(forms) <= 1 and factor is not None
    return TextBound(
        proven=proven,
        normaliser=form if proven else "+".join(loaded.forms),
        prefix_tokens=0 if manifest.prefix_space is None else 1,
        raw_factor=factor if proven else None,
    )
