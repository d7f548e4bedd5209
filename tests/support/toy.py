"""A tiny bundle of our own: no model file, one token per character or per pair of letters.

Every id can be computed by hand, so laws run in milliseconds. `template` chooses how it frames:

plain   every message between its role's marker and an end marker: sizes add up exactly
jitter  the same, with up to six characters of filler that depend on the length of the list: sizes do not add up
strict  roles must alternate and parallel calls raise: some rungs cannot be carried
bare    contents alone, one right after the other: no tools, no reasoning
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from planner.values.bundle import ControlToken, Engine, Manifest, Tier
from planner.values.profile import TemplateProfile

MARKERS = ("system", "developer", "user", "assistant", "tool", "tools", "call", "think", "end")
CONTROLS = tuple(ControlToken(f"<|{name}|>", number) for number, name in enumerate(MARKERS, 1))
FIRST_PAIR, FIRST_LETTER = 100, 2_000
HELD = "\ue000"
_CONTROL = re.compile("(" + "|".join(re.escape(token.text) for token in CONTROLS) + ")")
_PIECES = {"char": re.compile(r"(?s)."), "pair": re.compile(r"(?s)[a-z]{2}|.")}

_HEAD = (
    "{%- if tools %}{{ '<|tools|>' }}{% for tool in tools %}{{ tool | tojson }}{{ '\\n' }}{% endfor %}"
    "{{ '<|end|>' }}{% endif %}"
)
_BODY = (
    "{%- for m in messages %}{{ '<|' + m.role + '|>' }}"
    "{% if m.reasoning_content %}{{ '<|think|>' + m.reasoning_content + '<|end|>' }}{% endif %}"
    "{{ m.content or '' }}"
    "{% for call in m.tool_calls or [] %}{{ '<|call|>' + call.function.name + ' ' }}"
    "{{ call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}"
    "{{ '<|end|>' }}{% endfor %}"
    "{{ '<|end|>' }}{% endfor %}"
)
_TAIL = "{%- if loud %}{{ '!!!' }}{% endif %}{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
_JITTER = "{{ '~' * ((messages | length * 5 + 3 * (tools or []) | length) % 7) }}"
_STRICT = (
    "{%- set ns = namespace(last='') %}{% for m in messages %}"
    "{% if m.role in ['user', 'assistant'] and m.role == ns.last %}{{ raise_exception('twice') }}{% endif %}"
    "{% if (m.tool_calls or []) | length > 1 %}{{ raise_exception('parallel') }}{% endif %}"
    "{% set ns.last = m.role %}{% endfor %}"
)
TEMPLATES = {
    "plain": _HEAD + _BODY + _TAIL,
    "jitter": _JITTER + _HEAD + _BODY + _TAIL,
    "strict": _STRICT + _HEAD + _BODY + _TAIL,
    "bare": "{% for m in messages %}{{ m.content }}{% endfor %}{{ '<|assistant|>' }}",
}


class ToyEncoded:
    """The ids of one stretch, and the character at which each token begins."""

    def __init__(self, pieces: Sequence[str]) -> None:
        known = {token.text: token.id for token in CONTROLS}
        self.ids = [known[piece] if len(piece) > 2 else piece_id(piece) for piece in pieces]
        self._starts: list[int] = []
        self._length = 0
        for piece in pieces:
            self._starts.append(self._length)
            self._length += len(piece)

    def token_at(self, char: int) -> tuple[int, int]:
        """Return the first token that reaches beyond `char`, and where it begins."""
        if char >= self._length:
            return len(self.ids), char
        index = bisect_right(self._starts, char) - 1
        return index, self._starts[index]


def piece_id(piece: str) -> int:
    """Return the id of one character or of a pair of lower-case letters."""
    if len(piece) == 1:
        return FIRST_LETTER + ord(piece)
    first, second = (ord(letter) - ord("a") for letter in piece)
    return FIRST_PAIR + 26 * first + second


class ToyEngine:
    """The Engine port: pieces by one pattern, control tokens only where they are asked for."""

    vocab_size = FIRST_LETTER + 0x110000

    def __init__(self, pieces: str) -> None:
        self._pattern = _PIECES[pieces]

    def encode(self, text: str) -> ToyEncoded:
        """Encode a stretch as ordinary text."""
        return ToyEncoded(self._pattern.findall(text))

    def encode_parsed(self, text: str) -> list[int]:
        """Encode with every control string obeyed."""
        return self.encode_parsed_spans(text).ids

    def encode_parsed_spans(self, text: str) -> ToyEncoded:
        """The same, with borders."""
        pieces: list[str] = []
        for position, piece in enumerate(_CONTROL.split(text)):
            pieces += [piece] if position % 2 else self._pattern.findall(piece)
        return ToyEncoded(pieces)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""
        return "".join(map(_text_of, ids))


def _text_of(token: int) -> str:
    if token < FIRST_PAIR:
        return CONTROLS[token - 1].text
    if token < FIRST_LETTER:
        first, second = divmod(token - FIRST_PAIR, 26)
        return chr(first + ord("a")) + chr(second + ord("a"))
    return chr(token - FIRST_LETTER)


class ToyBundle:
    """The Bundle port over the above; equal arguments give equal digests in every process."""

    def __init__(
        self, template: str = "plain", pieces: str = "char", *, context_tokens: int | None = None,
        tiers: Sequence[Tier] = (), longest_token_bytes: int | None = 4, **stated: Any,
    ) -> None:  # fmt: skip
        self.template_source = TEMPLATES[template]
        self.engine: Engine = ToyEngine(pieces)
        digest = hashlib.sha256(self.template_source.encode()).hexdigest()
        named = f"toy-{template}-{pieces}"
        self.manifest = Manifest(
            id=named, digest=hashlib.sha256(f"{named}{digest}".encode()).hexdigest(),
            tokenizer_format="tokenizer_json", files=(), template_digest=digest, template_entry="default",
            template_version="1", context_tokens=context_tokens, tiers=tuple(tiers), control_tokens=CONTROLS,
            longest_token_bytes=longest_token_bytes, **stated,
        )  # fmt: skip
        strict = template == "strict"
        self.profile = TemplateProfile(
            digest, options=() if template == "bare" else ("loud",), user_slot=True, append_stable=template != "jitter",
            splice_depth=None if template == "jitter" else 1,
            parallel_calls="raises" if strict else "kept",
            neighbouring_users="raises" if strict else "kept",
            neighbouring_assistants="raises" if strict else "kept",
        )  # fmt: skip


def toy_text(
    messages: Sequence[dict[str, Any]], tools: Sequence[Any], template: str = "plain", *, loud: bool = False
) -> str:
    """Write the prompt as the templates do, without any of them: the oracle of the toy's framing.

    A `<` of content becomes U+E000, so that no content can spell a control string.
    """

    def own(text: str) -> str:
        return text.replace("<", HELD)

    out = "~" * ((len(messages) * 5 + 3 * len(tools)) % 7) if template == "jitter" else ""
    if tools:
        declared = "".join(own(json.dumps(tool, ensure_ascii=False)) + "\n" for tool in tools)
        out += f"<|tools|>{declared}<|end|>"
    for message in messages:
        out += f"<|{message['role']}|>"
        if message.get("reasoning_content"):
            out += f"<|think|>{own(message['reasoning_content'])}<|end|>"
        out += own(message["content"])
        for call in message.get("tool_calls", ()):
            given = call["function"]["arguments"]
            shown = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            out += f"<|call|>{own(call['function']['name'])} {own(shown)}<|end|>"
        out += "<|end|>"
    return out + ("!!!" if loud else "") + "<|assistant|>"


def toy_ids(engine: Engine, text: str) -> list[int]:
    """Encode what `toy_text` wrote, with every held-back `<` in its place again."""
    held, back = piece_id(HELD), piece_id("<")
    return [back if token == held else token for token in engine.encode_parsed(text)]
