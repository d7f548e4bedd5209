"""Which shorter forms a result or a passage has, longest first, and from which one a plan begins (X31, design.md §5).

Forms come from the application, from lossless shrinking, and last the stub that we write; nothing is cut inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from planner.steps.shrink import collapsed, minified
from planner.values.digest import keyed_digest
from planner.values.forms import Form, Shown, with_forms
from planner.values.passage import Passage
from planner.values.request import Options
from planner.values.turn import Message, ToolResult, Turn

STUB_DIGEST_CHARACTERS = 32

Texts = list[tuple[str, str]]
"""Names and texts of forms, longest first."""


@dataclass(frozen=True, slots=True)
class FormRules:
    """What a request allows beside the application's own forms, and how many bytes could ever fit."""

    stubs: bool = False
    shrink: str = "off"
    digest_key: bytes | None = field(default=None, repr=False)
    byte_limit: int | None = None

    @property
    def any(self) -> bool:
        """True where a result may have a form that the application did not bring."""
        return self.stubs or self.shrink != "off"

    def beyond(self, text: str) -> bool:
        """Tell whether a text has more bytes than tokens could cover, after what a template may strip."""
        return "<" not in text and self.beyond_plain(text.strip())

    def beyond_plain(self, text: str) -> bool:
        """The same for a text that no template strips."""
        return self.byte_limit is not None and more_bytes(text, self.byte_limit)


NO_RULES = FormRules()


def form_rules(options: Options, digest_key: bytes | None, byte_limit: int | None) -> FormRules:
    """Return the rules of a request."""
    return FormRules(options.stubs, options.shrink_results, digest_key if options.stubs else None, byte_limit)


def results_in(turn: Turn) -> int:
    """Return 0 for a turn without results, 2 where the application gave one of them forms, else 1."""
    found = [m.tool_result for m in turn.messages if m.tool_result is not None and m.accepted]
    return 0 if not found else 2 if any(result.short_forms for result in found) else 1


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """What a turn's own words say, whatever the request: its results (`results_in`) and its counted bytes."""

    turn: Turn = field(repr=False)
    results: int
    bytes: int


class FactsBook:
    """Facts of turns, each turn looked at once; they outlive a plan."""

    def __init__(self) -> None:
        """Start with none."""
        self._known: dict[str, TurnFacts] = {}

    def of(self, turn: Turn) -> TurnFacts:
        """Return the facts of a turn; a newer version of it is looked at anew."""
        known = self._known.get(turn.id)
        if known is None or known.turn is not turn:
            known = self._known[turn.id] = TurnFacts(turn, results_in(turn), counted_bytes(turn))
        return known

    def clear(self) -> None:
        """Drop everything."""
        self._known.clear()


def form_texts(turn: Turn, rules: FormRules, since: int = 0) -> dict[int, Texts]:
    """Return the forms of each finished result from a message on, by the index of its message.

    A protected message, the result of a protected call and one that carries a constraint stay as they are (X2, X31).
    """
    calls: dict[str, tuple[str, bool]] = {}
    out: dict[int, Texts] = {}
    for place, message in enumerate(turn.messages):
        if not message.accepted:
            continue
        for call in message.tool_calls:
            calls[call.id] = (call.name, message.protection_reason is not None)
        if message.tool_result is None or place < since:
            continue
        name, protected = calls.get(message.tool_result.call_id, ("", False))
        if protected or message.protection_reason is not None or message.constraint_ids:
            continue
        found = [*_of_result(message.tool_result, name, rules)]
        if found:
            out[place] = found
    return out


def _of_result(result: ToolResult, tool: str, rules: FormRules) -> Iterator[tuple[str, str]]:
    if rules.shrink in ("json", "all"):
        small = minified(result.text)
        if small is not None:
            yield "json", small
    if rules.shrink in ("logs", "all"):
        small = collapsed(result.text)
        if small is not None:
            yield "log", small
    yield from short_texts(result.short_forms)
    if rules.stubs:
        yield "stub", stub(result, tool, rules.digest_key)


def short_texts(texts: tuple[str, ...]) -> Texts:
    """Return the application's forms by name; the name is the place as the application gave it."""
    return [(f"short_{number}", text) for number, text in enumerate(texts, 1)]


def stub(result: ToolResult, tool: str, digest_key: bytes | None) -> str:
    """Return the words that stand for a result: its tool, call, length, and a keyed digest where there is a key.

    A plain digest of a short result could be guessed by trying, so there is none without a key (X50).

    >>> stub(ToolResult("call_1", "20 degrees"), "weather", None)
    '[result left out: tool weather, call call_1, 10 bytes]'
    """
    length = len(result.text.encode("utf-8", "surrogatepass"))
    digest = ""
    if digest_key is not None:
        digest = f", digest {keyed_digest(digest_key, result.text)[:STUB_DIGEST_CHARACTERS]}"
    return f"[result left out: tool {tool}, call {result.call_id}, {length} bytes{digest}]"


def first_shown(turn: Turn, rules: FormRules, *, whole: bool) -> Shown:
    """Return the forms a turn begins with, because longer ones have more bytes than could ever fit; mostly none.

    whole  the turn may leave, so that all of its results together must be able to fit.
    """
    limit = rules.byte_limit
    if limit is None or not too_many_bytes(turn, limit):
        return ()
    texts = form_texts(turn, rules)
    shown: dict[int, Form] = {}
    for place, forms in texts.items():
        if rules.beyond(turn.messages[place].words()):
            fitting = next((Form(*entry) for entry in forms if not rules.beyond(entry[1])), None)
            if fitting is not None:
                shown[place] = fitting
    if not whole:
        return tuple(sorted(shown.items()))
    for place, forms in texts.items():
        for entry in forms:
            if not too_many_bytes(with_forms(turn, tuple(shown.items())), limit):
                return tuple(sorted(shown.items()))
            held = shown[place].text if place in shown else turn.messages[place].words()
            if len(entry[1].encode()) < len(held.encode("utf-8", "surrogatepass")):
                shown[place] = Form(*entry)
    return tuple(sorted(shown.items()))


def first_passage(passage: Passage, rules: FormRules) -> Form | None:
    """Return the form a passage begins with where its text could never fit, None where it can or none does."""
    if not passage.short_forms or not rules.beyond_plain(passage.text):
        return None
    return next((Form(*entry) for entry in short_texts(passage.short_forms) if not rules.beyond_plain(entry[1])), None)


def may_fit(passage: Passage, rules: FormRules) -> bool:
    """Tell whether a passage could fit at all, whole or in one of its forms."""
    return not rules.beyond_plain(passage.text) or first_passage(passage, rules) is not None


def own_begun(turn: Turn, rules: FormRules) -> Turn:
    """Return the request's own turn as a plan begins with it."""
    return with_forms(turn, first_shown(turn, rules, whole=False))


def left_after(forms: Texts, shown: Form | None) -> Texts:
    """Return the forms that follow the one shown."""
    if shown is None:
        return forms
    names = [name for name, _ in forms]
    return forms[names.index(shown.name) + 1 :]


def too_many_bytes(turn: Turn, byte_limit: int) -> bool:
    """Tell whether a turn has more bytes than tokens could cover, after what a template may strip."""
    return counted_bytes(turn) > byte_limit


def more_bytes(text: str, limit: int) -> bool:
    """Tell whether a text has more bytes than this; a character has four at most, so few are encoded to see it."""
    return 4 * len(text) > limit and byte_length(text) > limit


def byte_length(text: str) -> int:
    """Return how many bytes a text has in UTF-8, surrogates as they are."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def counted_bytes(turn: Turn) -> int:
    """Return how many bytes of a turn tokens must cover.

    Reasoning and text with angle brackets (a parsed string may hide a part of it) do not count.
    """
    total = 0
    for message in turn.messages:
        if message.accepted:
            words = message.words().strip()
            if "<" not in words:
                total += byte_length(words)
    return total


def weight_of(turn: Turn) -> int:
    """Return about how many bytes a turn has; tokens follow bytes more closely than characters."""
    shown = [message for message in turn.messages if message.accepted]
    texts = [message.words() for message in shown]
    texts += [f"{call.name}{call.arguments}" for message in shown for call in message.tool_calls]
    return 64 + sum(map(byte_length, texts))


def result_name(message: Message) -> str:
    """Return how a result is named in a detail: its message id, else its call's."""
    return message.id or (message.tool_result.call_id if message.tool_result is not None else "")
