"""A policy as it is published: what every plan of a version carries, and what it may cost (R26, R27, X15)."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.values.request import Sections, TextItem, Tool
from planner.values.turn import MustPreserve


@dataclass(frozen=True, slots=True)
class Caps:
    """Most tokens of the fixed part, per bundle; absent ones are not checked.

    policy       tokens of the fixed part.
    fresh        fresh tokens of one plan; for the release gate.
    fixed_share  share of the input limit that the fixed part may take (X15).
    growth       tokens the fixed part may grow by since the published version.
    """

    policy: int | None = None
    fresh: int | None = None
    fixed_share: float = 0.25
    growth: int | None = None


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """Policy, tools and constraint texts under one version, with the caps they are published under."""

    policy_version: str
    policy: tuple[TextItem, ...] = ()
    tools: tuple[Tool, ...] = ()
    constraints: tuple[MustPreserve, ...] = ()
    caps: Caps = Caps()
    sections: Sections = field(default_factory=Sections)
    give_way_order: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FixedCost:
    """Tokens a policy takes of every plan of one bundle, measured by planning with it (R27).

    policy_tokens  texts of the policy; tool_tokens  declarations, `tools` has each by id.
    constraint_tokens  the state block with every constraint, the most a plan can carry.
    framing_tokens  what the template itself writes around policy, tools and a question.
    fixed_tokens  all of them, the question's own text apart.
    """

    bundle_id: str
    bundle_digest: str
    input_limit: int
    policy_tokens: int
    tool_tokens: int
    constraint_tokens: int
    framing_tokens: int
    fixed_tokens: int
    policy: tuple[tuple[str, int], ...] = ()
    tools: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What keeps a policy from publication: a code, the ids it is about, and one sentence without their texts."""

    code: str
    ids: tuple[str, ...]
    sentence: str
    bundle_id: str | None = None
