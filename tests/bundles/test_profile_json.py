"""A profile as JSON is strict: what is not exactly a profile is refused (cache, certificate, probe)."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from planner.bundles.profile_json import ProfileFormatError, profile_from_json, profile_to_json
from planner.values.profile import Normalisation, ParsedString, TemplateProfile, Trims

PROFILE = TemplateProfile(
    "ab" * 32,
    trims={"user": Trims(" ", "\n")},
    parsed_strings=(ParsedString("assistant", "</think>"),),
    normalisations=(Normalisation("call_ids", None, "after"),),
    options=("deep_thought",),
    splice_depth=None,
)


def test_a_profile_survives_its_json() -> None:
    """Every field comes back equal, also from text."""
    value = json.loads(json.dumps(profile_to_json(PROFILE)))
    assert profile_from_json(value) == PROFILE
    assert set(value) == {"".join([w[0], *(x.capitalize() for x in w[1:])]) for w in
                          (f.name.split("_") for f in fields(TemplateProfile))}  # fmt: skip


BROKEN: list[tuple[str, object]] = [
    ("system", "lost"), ("userSlot", 1), ("probeRenders", True), ("spliceDepth", "1"), ("trims", []),
    ("trims", {"user": {"left": ""}}), ("parsedStrings", [{"role": "user", "opener": "x"}]),
    ("options", "deep_thought"), ("options", [1]), ("unknown", 1), ("textArguments", None),
    ("normalisations", [{"name": None, "before": "", "after": ""}]),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), BROKEN, ids=[f"{key}-{index}" for index, (key, _) in enumerate(BROKEN)])
def test_a_profile_of_another_shape_is_refused(key: str, value: object) -> None:
    """One wrong, missing or unknown field is enough, and the message does not repeat the value."""
    whole = profile_to_json(PROFILE)
    with pytest.raises(ProfileFormatError) as caught:
        profile_from_json(whole | {key: value})
    assert "lost" not in str(caught.value)
    with pytest.raises(ProfileFormatError):
        profile_from_json({name: item for name, item in whole.items() if name != "system"})
