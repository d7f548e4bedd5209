"""Faults of the release gate's commands, for the one table in `planner/values/reasons.py`."""

from __future__ import annotations

from planner.values.code import Code


def gate_faults() -> tuple[Code, ...]:
    """Return them in the order of the table."""
    return (
        Code("vectors_differ", "fault", "A planner's answers are not those of the kit's vectors; each path is listed.",
             "Mend the port; if it is this planner, the kit is of another version."),
        Code("release_blocked", "fault", "The release gate blocks the candidate; every reason is listed.",
             "Mend what the reasons name; a larger limit clears none of them."),
        Code("signature_invalid", "fault", "A statement is unsigned, or not of these files, or not of this key.",
             "Name the files and the key it was signed with; if they are, do not trust it."),
        Code("key_unusable", "fault", "A file is no Ed25519 key in PEM, or it has a password.",
             "Name a private key to sign and a public key to check."),
        Code("worker_lost", "fault", "A process that runs cells of the gate ended again and again.",
             "Run the sample that is named alone; give each process more memory."),
    )  # fmt: skip
