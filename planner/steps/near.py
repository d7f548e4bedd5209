"""Whether two signatures say the same: equal up to order, small words and a light sentence (§5, move 0)."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from itertools import pairwise

from planner.steps.signature import NEGATIONS, Signature

MOST_EXTRA = 0.25
"""Share of the longer text that the other need not have, without any fact in it."""
_FEWEST_TOKENS = 8


def same(one: Signature, other: Signature) -> bool:
    """Tell whether a reader of one learns nothing of weight from the other."""
    if one.facts != other.facts or not one.size or not other.size:
        return one == other
    if one.sentences == other.sentences:
        return True
    less, more = (one, other) if one.size <= other.size else (other, one)
    extra = more.size - less.size
    if extra and (less.size < _FEWEST_TOKENS or extra > MOST_EXTRA * more.size):
        return False
    mine, theirs = less.counts(), more.counts()
    if mine - theirs:
        return False
    negated = Counter({token: count for token, count in (theirs - mine).items() if token in NEGATIONS})
    return not _exchanged(less, more, negated)


def _exchanged(less: Signature, more: Signature, negated: Counter[str]) -> bool:
    """Tell whether two facts changed places: within a sentence, or between two of them.

    negated  negations that only the longer text has; they must stand in sentences of their own.
    """
    left = list(more.sentences)
    missing: Counter[str] = Counter()
    for sentence in less.sentences:
        if sentence in left:
            left.remove(sentence)
            continue
        if not left:
            return bool(negated)
        counts = Counter(sentence)
        twin = max(left, key=lambda entry: ((counts & Counter(entry)).total() / max(len(entry), len(sentence)), entry))
        shared = counts & Counter(twin)
        if 2 * shared.total() < len(sentence):
            continue
        left.remove(twin)
        lost, came = counts - Counter(twin), Counter(twin) - counts
        if lost and came and lost.total() <= 4 and came.total() <= 4:
            missing.update(lost)
            if any(token in missing for token in came):
                return True
        if came and not lost and came.total() < 4 and any(not token.isascii() for token in came):
            return True
        if _swapped(sentence, twin) or _negated(sentence) != _negated(twin):
            return True
    return bool(negated - Counter(token for sentence in left for token in sentence))


def _swapped(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Tell whether X and Y stand in each other's place, with something between them that did not move."""
    steps = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    pairs = {(one[a:b], other[c:d]) for tag, a, b, c, d in steps if tag == "replace"}
    if any((new, old) in pairs for old, new in pairs if old != new):
        return True
    numbers = [token for token in one if token[-1].isdigit()]
    if numbers != [token for token in other if token[-1].isdigit()] and _adjacent(one) != _adjacent(other):
        return True
    mine, theirs = _places(one), _places(other)
    moved = [token for token, around in mine.items() if theirs.get(token, around) != around]
    back = {around: token for token, around in theirs.items()}
    for token in moved:
        rival = back.get(mine[token])
        if rival is not None and rival != token and mine.get(rival) == theirs.get(token):
            return True
    return False


def _places(sentence: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Return the neighbours of each token that stands once in a sentence."""
    counts = Counter(sentence)
    edged = ("", *sentence, "")
    return {token: (edged[at], edged[at + 2]) for at, token in enumerate(sentence) if counts[token] == 1}


def _adjacent(sentence: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the numbers that stand side by side: a span, whose ends may not be exchanged."""
    return sorted(
        (first, second) for first, second in pairwise(sentence) if first[-1].isdigit() and second[-1].isdigit()
    )


def _negated(sentence: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return each negation with what it stands before."""
    return sorted(
        sentence[at : at + (2 if token.isascii() else 3)] for at, token in enumerate(sentence) if token in NEGATIONS
    )
