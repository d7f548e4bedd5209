"""What a candidate states against what bundles and samples state of the same (R190, R194).

Nothing is made up for a side that is silent: such a field is compared in no cell, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from planner.values.account import wire_field
from planner.values.bundle import Manifest
from planner.values.candidate import Candidate
from planner.values.gate import Reason, Sample, WrittenFor

_FIELDS = tuple(entry.name for entry in fields(WrittenFor))
IDENTITY = tuple(wire_field(name) for name in _FIELDS)
"""The fields of a candidate that a bundle or a sample may state too, as they are spelled in its file."""


def check_identity(candidate: Candidate, sample: Sample, manifest: Manifest) -> Iterator[tuple[str, Reason | None]]:
    """Give each field that bundle or sample state too, by its name on the wire, with the reason where it differs."""
    for name in _FIELDS:
        told = [getattr(sample.written_for, name)]
        if name == "template_version":
            told.append(manifest.template_version)
        stated = [one for one in told if one is not None]
        if stated:
            wrong = not all(states(candidate, name, one) for one in stated)
            yield wire_field(name), Reason("identity_differs", wire_field(name)) if wrong else None


def states(candidate: Candidate, name: str, value: str) -> bool:
    """Tell whether a candidate states this value of a field; of the template's version it may state several."""
    if name == "template_version":
        return value in candidate.template_versions
    return bool(getattr(candidate, name) == value)
