"""A template profile as JSON and back, strictly: the form of cache, certificate and probe process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

from planner.values.profile import Normalisation, ParsedString, TemplateProfile, Trims


class ProfileFormatError(ValueError):
    """A JSON value is not a profile; the message names the field, never its value."""


def profile_to_json(profile: TemplateProfile) -> dict[str, Any]:
    """Return plain JSON types, one key per field in camel case; equal profiles give equal values.

    >>> profile_to_json(TemplateProfile("ab"))["textBesideCall"]
    'kept'
    """
    values: dict[str, Any] = {_camel(f.name): getattr(profile, f.name) for f in dataclasses.fields(profile)}
    values["trims"] = {
        role: {"left": trims.left, "right": trims.right} for role, trims in sorted(profile.trims.items())
    }
    values["parsedStrings"] = [dataclasses.asdict(parsed) for parsed in profile.parsed_strings]
    values["normalisations"] = [dataclasses.asdict(change) for change in profile.normalisations]
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def profile_from_json(value: Any) -> TemplateProfile:
    """Return the profile of a JSON value. Raises ProfileFormatError for any other shape."""
    hints = get_type_hints(TemplateProfile)
    names = {_camel(f.name): f.name for f in dataclasses.fields(TemplateProfile)}
    _require(isinstance(value, dict) and set(value) == set(names), "keys")
    fields = {name: _FIELDS.get(name, _plain)(value[key], hints[name], key) for key, name in names.items()}
    return TemplateProfile(**fields)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _require(condition: bool, key: str) -> None:
    if not condition:
        raise ProfileFormatError(f"not a template profile: {key}")


def _plain(value: Any, hint: Any, key: str) -> Any:
    choices = get_args(hint)
    if hint in (str, bool, int):
        _require(type(value) is hint, key)
    elif choices == (int, type(None)):
        _require(value is None or type(value) is int, key)
    else:
        _require(isinstance(value, str) and value in choices, key)
    return value


def _strings(value: Any, _hint: Any, key: str) -> tuple[str, ...]:
    _require(isinstance(value, list) and all(isinstance(text, str) for text in value), key)
    return tuple(value)


def _record(value: Any, names: tuple[str, ...], key: str, nullable: str = "") -> dict[str, Any]:
    _require(isinstance(value, dict) and set(value) == set(names), key)
    _require(all(isinstance(text, str) or (text is None and name == nullable) for name, text in value.items()), key)
    return dict(value)


def _trims(value: Any, _hint: Any, key: str) -> Mapping[str, Trims]:
    _require(isinstance(value, dict), key)
    return {role: Trims(**_record(trims, ("left", "right"), key)) for role, trims in value.items()}


def _parsed(value: Any, _hint: Any, key: str) -> tuple[ParsedString, ...]:
    _require(isinstance(value, list), key)
    return tuple(ParsedString(**_record(parsed, ("role", "opener", "closer"), key)) for parsed in value)


def _changes(value: Any, _hint: Any, key: str) -> tuple[Normalisation, ...]:
    _require(isinstance(value, list), key)
    names = ("name", "before", "after")
    return tuple(Normalisation(**_record(change, names, key, "before")) for change in value)


_FIELDS: dict[str, Callable[[Any, Any, str], Any]] = {
    "options": _strings,
    "rewrites": _strings,
    "template_literals": _strings,
    "trims": _trims,
    "parsed_strings": _parsed,
    "normalisations": _changes,
}
