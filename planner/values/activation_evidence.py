"""What is known of a candidate template before it is activated: digests, profiles, cells and measured budgets (X59)."""

from __future__ import annotations

from dataclasses import dataclass

from planner.values.activation import TemplateVersion
from planner.values.candidate import MatrixCell
from planner.values.profile import TemplateProfile


@dataclass(frozen=True, slots=True)
class Cost:
    """What one sample takes on one bundle.

    reason     of the refusal, None for a plan.
    tokens     of the prompt, or of what cannot move where it does not fit; None where nothing was measured.
    immutable  tokens of each id that may never leave: policy, scope, output schema, tools, the request.
    """

    bundle_digest: str | None
    reason: str | None
    tokens: int | None
    input_limit: int | None
    immutable: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class BudgetRun:
    """A sample planned before and after the change, under one limit of one app's version (R175, R176).

    limit  a tier's id, or empty for the request's own.
    """

    sample: str
    app_version: str | None
    limit: str
    before: Cost
    after: Cost


@dataclass(frozen=True, slots=True)
class Probed:
    """What the probe measured; `fault` says why the new template was refused and then has no profile."""

    before: TemplateProfile
    after: TemplateProfile | None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Differences:
    """What one renderer does otherwise than the reference: names of the probe's shapes."""

    renderer: str
    shapes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActivationEvidence:
    """Everything a verdict is made of; a stage that was not reached is None, and then nothing may be activated.

    found_sha256  of the bytes at hand, None where there are none.
    app_version   of the app that activates, None where only the matrix names versions.
    digests       of this bundle with any template the cells may name: built-in, active, candidate.
    cells         of the whole matrix, None without one: then the bundle's approved tiers stand for it, simulated.
    """

    bundle_id: str
    template: TemplateVersion
    found_sha256: str | None
    app_version: str | None
    digests: tuple[str, ...]
    cells: tuple[MatrixCell, ...] | None = None
    probed: Probed | None = None
    runs: tuple[BudgetRun, ...] | None = None
    differences: tuple[Differences, ...] = ()
