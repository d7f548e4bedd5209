"""Certificates of a bundle as records in the user's folder: read strictly, or not at all."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, get_args

from planner.bundles.fields import Fields, one_of, read_count, read_flag, read_list, read_text
from planner.bundles.records import Records
from planner.values.account import wire_field
from planner.values.certificate import SHAPES, Certificate, CertifiedMode, Vector
from planner.values.reasons import PlannerFault

MODES: tuple[CertifiedMode, ...] = get_args(CertifiedMode)


def keep_certificate(records: Records, certificate: Certificate) -> None:
    """Write a certificate; one of the same mode is replaced. Raises file_not_readable."""
    records.write(f"certificate-{certificate.mode}", certificate_fields(certificate))


def certificate_fields(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as JSON: digests, counts and versions."""
    fields = {wire_field(name): value for name, value in asdict(certificate).items()}
    fields["vectors"] = [{wire_field(name): value for name, value in one.items()} for one in fields["vectors"]]
    return fields


def certificates(records: Records) -> dict[str, Certificate]:
    """Return the certificates of a bundle by mode; one that cannot be read is none."""
    found: dict[str, Certificate] = {}
    for mode in MODES:
        try:
            value = records.read(f"certificate-{mode}")
            if value is not None:
                found[mode] = _certificate(value, mode)
        except PlannerFault:
            continue
    return found


def _certificate(value: dict[str, Any], mode: CertifiedMode) -> Certificate:
    row = Fields(value, "$")
    row.take("schemaVersion", one_of(("1.0",)))
    row.take("bundleDigest", read_text)
    made = Certificate(
        mode=row.take("mode", one_of((mode,))),
        runtime=row.take("runtime", read_text),
        versions=tuple(row.take("versions", lambda rows, at: read_list(rows, at, read_text))),
        covers=tuple(row.take("covers", lambda rows, at: read_list(rows, at, one_of(SHAPES)))),
        exact=row.take("exact", read_flag),
        vectors=tuple(row.take("vectors", lambda rows, at: read_list(rows, at, _vector))),
        runtime_begins=row.take("runtimeBegins", read_flag),
    )
    row.close()
    return made


def _vector(value: Any, path: str) -> Vector:
    row = Fields(value, path)
    made = Vector(
        name=row.take("name", read_text),
        shapes=tuple(row.take("shapes", lambda rows, at: read_list(rows, at, one_of(SHAPES)))),
        planned_tokens=row.take("plannedTokens", read_count),
        counted_tokens=row.take("countedTokens", read_count),
        same_ids=row.take("sameIds", read_flag, None),
        digest=row.take("digest", read_text),
    )
    row.close()
    return made
