"""The metadata section of a LiteRT-LM file: tokens, context, and the chat template or what one is made from.

Only the fields that change ids are read; their numbers are those of facts-runtimes.md §4.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.bundles.files import MAX_TEMPLATE_BYTES
from planner.bundles.litertlm_header import unsafe
from planner.bundles.loaded import MAX_TOKEN_BYTES
from planner.bundles.protobuf import BYTES, VARINT, Damaged, fields, varint

MAX_METADATA_BYTES = MAX_TEMPLATE_BYTES + (1 << 20)
MAX_FIELDS = 65_536
MAX_STOPS = 256
MAX_AFFIX_BYTES = 65_536
_MOST = 1 << 31

_START, _STOP, _PROMPTS, _CONTEXT, _MODEL, _TEMPLATE = 1, 2, 3, 5, 6, 7
_USER, _ASSISTANT, _SYSTEM = 1, 2, 3

AFFIX_MODELS = frozenset({0, 1, 2, 4})
"""Kinds of model whose prompts the runtime makes from the affixes: none stated, generic, gemma3n, gemma3.

For the others the runtime has a template of its own, which the file does not hold.
"""


@dataclass(frozen=True, slots=True)
class Token:
    """A token as the file states it: ids, or a text."""

    ids: tuple[int, ...] = ()
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Affixes:
    """What stands before and behind the text of one role."""

    prefix: str = ""
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a file says about its prompts; `context_tokens` None where it states none."""

    start: Token | None = None
    stops: tuple[Token, ...] = ()
    user: Affixes = field(default_factory=Affixes)
    assistant: Affixes = field(default_factory=Affixes)
    system: Affixes = field(default_factory=Affixes)
    context_tokens: int | None = None
    model: int = 0
    template: str | None = None

    @property
    def has_affixes(self) -> bool:
        """Whether any role has a text around it."""
        return any(one != Affixes() for one in (self.user, self.assistant, self.system))


def parse_metadata(data: bytes) -> Metadata:
    """Parse the section. Raises bundle_unsafe for anything damaged."""
    try:
        top = _Message(data, 0, len(data))
        prompts = top.message(_PROMPTS)
        user, assistant, system = (_affixes(prompts, role) for role in (_USER, _ASSISTANT, _SYSTEM))
        start = top.message(_START)
        context = top.number(_CONTEXT)
        return Metadata(
            start=None if start is None else _token(start),
            stops=tuple(_token(one) for one in top.messages(_STOP, MAX_STOPS)),
            user=user,
            assistant=assistant,
            system=system,
            context_tokens=context if 0 < context < _MOST else None,
            model=_model(top.message(_MODEL)),
            template=top.text(_TEMPLATE, MAX_TEMPLATE_BYTES) or None,
        )
    except (Damaged, UnicodeDecodeError):
        raise unsafe("the metadata section is damaged or breaks a bound") from None


class _Message:
    """One message, its fields by number in the order they stand there."""

    def __init__(self, data: bytes, begin: int, end: int) -> None:
        self._data = data
        self.rows: dict[int, list[tuple[int, int, int]]] = {}
        for count, (number, kind, start, stop) in enumerate(fields(data, begin, end)):
            if count >= MAX_FIELDS:
                raise Damaged
            self.rows.setdefault(number, []).append((kind, start, stop))

    def _one(self, number: int, kind: int) -> tuple[int, int] | None:
        rows = self.rows.get(number, [])
        # A doubled field would be merged or replaced, by rules that readers follow differently.
        if len(rows) > 1 or any(row[0] != kind for row in rows):
            raise Damaged
        return rows[0][1:] if rows else None

    def number(self, number: int) -> int:
        place = self._one(number, VARINT)
        return 0 if place is None else varint(self._data, *place)[0]

    def text(self, number: int, most: int) -> str:
        place = self._one(number, BYTES)
        if place is None:
            return ""
        if place[1] - place[0] > most:
            raise Damaged
        return self._data[place[0] : place[1]].decode("utf-8")

    def message(self, number: int) -> _Message | None:
        place = self._one(number, BYTES)
        return None if place is None else _Message(self._data, *place)

    def messages(self, number: int, most: int) -> list[_Message]:
        rows = self.rows.get(number, [])
        if len(rows) > most or any(row[0] != BYTES for row in rows):
            raise Damaged
        return [_Message(self._data, start, stop) for _, start, stop in rows]

    def numbers(self, number: int, most: int) -> tuple[int, ...]:
        """Return a list of numbers, packed or one field each."""
        found: list[int] = []
        for kind, start, stop in self.rows.get(number, []):
            if kind not in (VARINT, BYTES):
                raise Damaged
            at = start
            while at < stop:
                value, at = varint(self._data, at, stop)
                found.append(value)
                if value >= _MOST or len(found) > most:
                    raise Damaged
        return tuple(found)


def _token(message: _Message) -> Token:
    ids = message.message(1)
    if ids is not None:
        return Token(ids=ids.numbers(1, MAX_STOPS))
    return Token(text=message.text(2, MAX_TOKEN_BYTES))


def _affixes(prompts: _Message | None, role: int) -> Affixes:
    found = None if prompts is None else prompts.message(role)
    if found is None:
        return Affixes()
    return Affixes(found.text(1, MAX_AFFIX_BYTES), found.text(2, MAX_AFFIX_BYTES))


def _model(message: _Message | None) -> int:
    """Return the number of the kind of model, 0 where none is stated."""
    if message is None or not message.rows:
        return 0
    if len(message.rows) > 1:
        raise Damaged
    return next(iter(message.rows))


def affix_template(metadata: Metadata) -> str:
    """Return a chat template that writes what the runtime writes around each role's text, by our own words.

    The header of the answer is what stands before an assistant's text. A role the runtime has no affixes for
    is refused by the template.
    """
    roles = (("user", metadata.user), ("assistant", metadata.assistant), ("system", metadata.system))
    arms = "".join(
        f"{{%- {'elif' if place else 'if'} message.role == '{role}' -%}}"
        f"{_written(affixes.prefix)}{{{{- message.content -}}}}{_written(affixes.suffix)}"
        for place, (role, affixes) in enumerate(roles)
    )
    return (
        "{%- for message in messages -%}"
        f"{arms}"
        "{%- else -%}{{- raise_exception('this role has no prompt affixes') -}}{%- endif -%}"
        "{%- endfor -%}"
        f"{{%- if add_generation_prompt -%}}{_written(metadata.assistant.prefix)}{{%- endif -%}}"
    )


def _written(text: str) -> str:
    if not text:
        return ""
    plain = text.replace("\\", "\\\\").replace("'", "\\'").replace("\r", "\\r").replace("\n", "\\n")
    return f"{{{{- '{plain}' -}}}}"
