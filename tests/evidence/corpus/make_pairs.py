"""Write pairs.jsonl from the hand-written bases: every pair is a base and one named change of it.

Run as `python -m tests.evidence.corpus.make_pairs`. No randomness: the same bases give the same bytes.
"""

from __future__ import annotations

import json
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

from tests.evidence.corpus.forms import CJK, of_sentences, of_text, size

HERE = Path(__file__).parent
BASES = ("bases_en_1", "bases_en_2", "bases_zh", "bases_ja", "bases_ar", "bases_hi", "bases_mixed")
Base = dict[str, Any]
Pair = dict[str, str | bool]


def join(sentences: list[str], language: str) -> str:
    """Set sentences one after the other as the language does."""
    return ("" if language in CJK else " ").join(sentences)


def replaced(sentences: list[str], edits: list[list[str]]) -> list[str]:
    """Apply each (old, new) to the one sentence that holds it.

    Raises:
        ValueError: an edit fits no place, or more than one.
    """
    out = list(sentences)
    for old, new in edits:
        places = [index for index, one in enumerate(out) if old in one]
        if len(places) != 1 or out[places[0]].count(old) != 1 or old == new:
            raise ValueError(f"edit fits {len(places)} places: {old}")
        out[places[0]] = out[places[0]].replace(old, new)
    return out


def formed(base: Base, sentences: list[str], recipe: str) -> str:
    """Change the form of a passage by the steps of a recipe (`order+lines`), never its information."""
    steps = recipe.split("+")
    for name in ("function", "clause"):
        if name in steps:
            sentences = replaced(sentences, base[name])
    if "order" in steps:
        sentences = [sentences[place] for place in base["order"]]
    if "extra" in steps:
        sentences = [*sentences, base["extra"]]
    if "boiler" in steps:
        head, tail = base["boiler"]
        sentences = [one for one in (head, *sentences, tail) if one]
    text = join(sentences, base["language"])
    for step in steps:
        if step in of_sentences:
            text = of_sentences[step](sentences)
    for step in steps:
        if step in of_text:
            changed = of_text[step](text)
            if changed == text:
                raise ValueError(f"{base['id']}: {step} changes nothing")
            text = changed
    unknown = set(steps) - {"function", "clause", "order", "extra", "boiler"} - set(of_sentences) - set(of_text)
    if unknown:
        raise ValueError(f"unknown steps {sorted(unknown)}")
    return text


def overlapping(base: Base, percent: int) -> str:
    """Mix sentences of the base and of its other passage until the shared part is nearest to `percent`.

    The share is the size of what both hold over the size of the longer one.
    """
    text, other, language = base["text"], base["other"], base["language"]
    whole = sum(size(one, language) for one in text)
    best: tuple[float, list[str]] | None = None
    for kept in product((True, False), repeat=len(text)):
        for added in product((True, False), repeat=len(other)):
            same = [one for one, keep in zip(text, kept, strict=True) if keep]
            new = [one for one, keep in zip(other, added, strict=True) if keep]
            length = sum(size(one, language) for one in (*same, *new))
            if not 0.75 * whole <= length <= 1.3 * whole:
                continue
            share = 100 * sum(size(one, language) for one in same) / max(whole, length)
            if best is None or abs(share - percent) < abs(best[0] - percent):
                best = (share, [*new, *same] if percent == 50 else [*same, *new])
    if best is None or abs(best[0] - percent) > 7:
        raise ValueError(f"{base['id']}: no overlap near {percent}, nearest is {best and best[0]}")
    return join(best[1], language)


def positives(base: Base) -> list[Pair]:
    """Build the duplicates of one base, one for each recipe."""
    text = join(base["text"], base["language"])
    return [
        _pair(base, recipe, "several_forms" if "+" in recipe else FORM_KINDS.get(recipe, recipe), True,
              text, formed(base, base["text"], recipe))
        for recipe in base["form"]
    ]  # fmt: skip


def negatives(base: Base) -> list[Pair]:
    """Build what must not count as a duplicate: changed facts, overlaps, a contained part, another passage."""
    language = base["language"]
    text = join(base["text"], language)
    pairs = []
    for number, (kind, old, new, *dress) in enumerate(base["fact"], start=1):
        changed = replaced(base["text"], [[old, new]])
        if dress:
            redone = {"id": base["id"], "language": language, "order": base["order"], "boiler": base["boiler"]}
            redone["clause"] = [edit for edit in base["clause"] if any(edit[0] in one for one in changed)]
            pairs.append(_pair(base, f"fact{number}", f"{kind}_and_form", False, text, formed(redone, changed, *dress)))
        else:
            pairs.append(_pair(base, f"fact{number}", kind, False, text, join(changed, language)))
    pairs += [
        _pair(base, f"part{percent}", f"overlap_{percent}", False, text, overlapping(base, percent))
        for percent in base["partial"]
    ]
    if "contained" in base:
        part = join(base["text"][: base["contained"]], language)
        pairs.append(_pair(base, "part", "contained", False, part, join([*base["text"], *base["other"]], language)))
    else:
        pairs.append(_pair(base, "other", "other_facts", False, text, join(base["other"], language)))
    return pairs


FORM_KINDS = {
    "clause": "clause_order", "order": "sentence_order", "function": "function_words", "boiler": "boilerplate",
    "extra": "overlap_85_to_95", "upper": "case", "lower": "case", "wide": "width", "half": "width",
    "halfkana": "width", "spaces": "white_space", "lines": "line_breaks", "wrapped": "line_breaks",
    "bullets": "list_markers", "hyphen_bullets": "list_markers", "starred": "list_markers",
    "numbered": "list_markers", "lettered": "list_markers", "numbered_zh": "list_markers",
    "curly": "quotation_marks", "angled": "quotation_marks", "corner": "quotation_marks",
    "curly_zh": "quotation_marks", "no_commas": "punctuation", "semicolons": "punctuation",
    "semicolons_zh": "punctuation", "semicolons_ar": "punctuation", "danda": "punctuation",
    "forms": "ligatures",
}  # fmt: skip
"""Step of a recipe to the kind it is counted under; a step that is not listed is its own kind."""


def _pair(base: Base, name: str, kind: str, duplicate: bool, a: str, b: str) -> Pair:
    language = base["language"]
    return {"pair": f"{language}-{base['id']}-{name}", "language": language, "kind": kind, "duplicate": duplicate,
            "a": a, "b": b}  # fmt: skip


def bases() -> list[Base]:
    """Read all bases, each with the language of its file."""
    out = []
    for name in BASES:
        document = tomllib.loads((HERE / f"{name}.toml").read_text("utf-8"))
        out += [{"language": document["language"], **base} for base in document["base"]]
    return out


def pairs() -> list[Pair]:
    """Build every pair, in the order of the bases."""
    out = [pair for base in bases() for pair in (*positives(base), *negatives(base))]
    written = tomllib.loads((HERE / "pairs_by_hand.toml").read_text("utf-8"))["pair"]
    out += [
        _pair({"language": one["language"], "id": "hand"}, one["id"], one["kind"], one["duplicate"], one["a"], one["b"])
        for one in written
    ]
    # The relation has no direction; every second pair is turned so that none can be learnt from the sides.
    return [{**one, "a": one["b"], "b": one["a"]} if place % 2 else one for place, one in enumerate(out)]


def lines() -> str:
    """Return the text of pairs.jsonl."""
    return "".join(json.dumps(pair, ensure_ascii=False) + "\n" for pair in pairs())


if __name__ == "__main__":
    (HERE / "pairs.jsonl").write_text(lines(), "utf-8", newline="\n")
