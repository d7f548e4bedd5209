"""What is known of a chat template that replaces a bundle's own: the version, its record, its audit (R174..R177)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.values.bundle import ControlToken

MAX_AUDIT_ROWS = 100


@dataclass(frozen=True, slots=True)
class TemplateVersion:
    """A template that passed its gate.

    sha256           of its UTF-8 bytes.
    bundle_digest    of the bundle with this template: another template is another bundle.
    min_app, max_app versions of the application it is meant for, inclusive; None is open.
    control_tokens   tokens it writes beside those of the manifest.
    """

    sha256: str
    bundle_digest: str
    entry: str = "default"
    version: str | None = None
    min_app: str | None = None
    max_app: str | None = None
    control_tokens: tuple[ControlToken, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One decision about a bundle's template: digests, versions and codes, never text.

    action    `activate`, `refuse` or `rollback`.
    findings  why it was refused, `code id` each.
    """

    at: str
    action: str
    template_digest: str | None
    template_version: str | None = None
    app_version: str | None = None
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TemplateState:
    """Which template a bundle uses; `active` None is the built-in one.

    base_digest    of the bundle with its built-in template: a changed bundle is not served by an old decision.
    can_step_back  whether `previous` (None: the built-in one) is there to go back to.
    """

    model_bundle_id: str
    base_digest: str
    active: TemplateVersion | None = None
    previous: TemplateVersion | None = None
    can_step_back: bool = False
    audit: tuple[AuditRow, ...] = ()


def activated(state: TemplateState, template: TemplateVersion, row: AuditRow) -> TemplateState:
    """Return the state with another active template; what was active is one step back."""
    return replace(
        noted(state, row), active=template, previous=state.active, can_step_back=True,
    )  # fmt: skip


def stepped_back(state: TemplateState, row: AuditRow) -> TemplateState:
    """Return the state one step back; there is one step and no more (R212)."""
    return replace(noted(state, row), active=state.previous, previous=None, can_step_back=False)


def noted(state: TemplateState, row: AuditRow) -> TemplateState:
    """Return the state with one more row of audit, the newest last; the oldest leave.

    >>> row = AuditRow("2026-11-30T12:00:00Z", "refuse", None)
    >>> len(noted(TemplateState("b", "0" * 64, audit=(row,) * MAX_AUDIT_ROWS), row).audit) == MAX_AUDIT_ROWS
    True
    """
    return replace(state, audit=(*state.audit, row)[-MAX_AUDIT_ROWS:])
