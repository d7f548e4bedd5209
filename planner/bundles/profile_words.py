"""A measured profile in words a person reads: what the template drops, raises on, rewrites (facts-bundles.md §5).

Pure text over `TemplateProfile`; `planner bundle profile` and docs/templates.md print the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.values.profile import Carried, TemplateProfile, Trims

PARTS: Mapping[tuple[str, ...], str] = {
    ("system", "late_system"): "system text",
    ("system",): "system text at the start",
    ("late_system",): "system text later",
    ("developer", "late_developer"): "developer text",
    ("developer",): "developer text at the start",
    ("late_developer",): "developer text later",
    ("tools",): "tool declarations",
    ("tool_call", "tool_result"): "calls and results",
    ("tool_call",): "calls",
    ("tool_result",): "results",
    ("parallel_calls",): "parallel calls",
    ("text_beside_call",): "text beside a call",
    ("neighbouring_users",): "two user messages in a row",
    ("neighbouring_assistants",): "two answers in a row",
    ("assistant_first",): "an answer before any question",
}
"""Fields of the profile to what they are about together, in the order of a table; the first that applies is named."""
_RICHER_CALLS = frozenset({"parallel_calls", "text_beside_call"})
_SHORT = 40


def dropped(profile: TemplateProfile) -> tuple[str, ...]:
    """Name what vanishes without an error.

    >>> dropped(TemplateProfile("", developer="dropped"))
    ('developer text at the start',)
    """
    return _with(profile, "dropped")


def raised(profile: TemplateProfile) -> tuple[str, ...]:
    """Name what makes the render fail."""
    found = _with(profile, "raises")
    if profile.reasoning == "raises":
        return (*found, "reasoning")
    return (*found, "reasoning beside text and calls") if profile.reasoning_beside_text == "raises" else found


def _with(profile: TemplateProfile, verdict: Carried) -> tuple[str, ...]:
    """Name the parts of this verdict; a richer call that fares as a plain one is not named again."""
    named: dict[str, str] = {}
    for fields, text in PARTS.items():
        if any(field in named or getattr(profile, field) != verdict for field in fields):
            continue
        if not (_RICHER_CALLS.issuperset(fields) and profile.tool_call == verdict):
            named.update(dict.fromkeys(fields, text))
    return tuple(dict.fromkeys(named.values()))


def rewritten(profile: TemplateProfile) -> tuple[str, ...]:
    """Name what comes out otherwise than it went in, and what the template itself depends on."""
    roles: dict[str, list[str]] = {}
    for role, trims in sorted(profile.trims.items()):
        roles.setdefault(_ends(trims), []).append(role)
    found = [f"trims {ends} of {'/'.join(named)} texts" for ends, named in roles.items()]
    if profile.generation_prompt == "rewrites":
        found.append("writes earlier text otherwise without the header of an answer")
    if profile.uses_clock:
        found.append("prints the date")
    return tuple(found)


def _ends(trims: Trims) -> str:
    white = [side for side in (trims.left, trims.right) if side]
    what = "white space" if all(len(side) > 4 for side in white) else _named("".join(white))
    where = "both ends" if trims.left and trims.right else "the start" if trims.left else "the end"
    return f"{what} at {where}"


def _named(characters: str) -> str:
    names = {" ": "spaces", "\n": "newlines", "\t": "tabs", "\r": "returns"}
    return ", ".join(dict.fromkeys(names.get(character, f"U+{ord(character):04X}") for character in characters))


def call_rules(profile: TemplateProfile) -> tuple[str, ...]:
    """Say how calls must be given: ids, arguments, null content. Empty where no call is carried."""
    if profile.tool_call != "kept":
        return ()
    found = ["any id" if profile.call_ids == "any" else "ids of nine letters or digits"]
    if profile.text_arguments == "given":
        found.append("arguments as text stay as written")
    elif profile.object_arguments == "kept":
        found.append("arguments as an object")
    else:
        found.append("arguments as text only")
    if profile.null_content == "raises":
        found.append("no null content")
    elif profile.null_content == "differs":
        found.append("null content differs from empty text")
    return tuple(found)


def reasoning(profile: TemplateProfile) -> str:
    """Say what becomes of the reasoning of an earlier turn: kept, stripped, refused."""
    return {"kept": "kept", "dropped": "stripped", "raises": "refused"}[profile.old_reasoning]


def parsed(profile: TemplateProfile) -> tuple[str, ...]:
    """Name the strings the template reads in texts, each with the roles in whose texts it does; ASCII."""
    roles: dict[str, list[str]] = {}
    for one in profile.parsed_strings:
        name = _short(one.opener) + (f" .. {_short(one.closer)}" if one.closer else "")
        roles.setdefault(name, []).append(one.role)
    return tuple(f"{name} in {'/'.join(found)}" for name, found in roles.items())


def _short(text: str) -> str:
    shown = ascii(text)[1:-1]
    return shown if len(shown) <= _SHORT else shown[: _SHORT - 3] + "..."


def splice(profile: TemplateProfile) -> str:
    """Say on how many following turns the text of a turn depends: a figure, or that none was proven."""
    return "not proven" if profile.splice_depth is None else str(profile.splice_depth)


def described(profile: TemplateProfile) -> dict[str, Any]:
    """Return the whole description, camel case keys, lists of words; JSON types only."""
    return {
        "drops": list(dropped(profile)),
        "raisesOn": list(raised(profile)),
        "rewrites": list(rewritten(profile)),
        "callRules": list(call_rules(profile)),
        "oldReasoning": reasoning(profile),
        "parsedStrings": list(parsed(profile)),
        "spliceDepth": profile.splice_depth,
        "appendStable": profile.append_stable,
        "contents": profile.content_form,
        "writesBos": profile.writes_bos,
        "answerHeader": profile.generation_prompt,
        "options": list(profile.options),
    }
