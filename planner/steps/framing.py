"""How to frame: the profile, the concessions in force, what is stripped (design.md §6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from planner.values.part_cost import PartCost
from planner.values.profile import TemplateProfile
from planner.values.prompt import Leaf

Wrap = Callable[[Leaf], str]
"""Turns a leaf into the string the template sees: owned (`tracked.own`) or plain."""


@dataclass(frozen=True, slots=True)
class Framing:
    """How to frame: the measured profile, the concessions in force, and how leaves become strings.

    `costs` has the cost function of each type of part that is no text.
    `by_message` names each message an item of its own, to measure it: then every message has its place as its id.
    """

    profile: TemplateProfile
    concessions: frozenset[str]
    wrap: Wrap
    drop_unsupported: bool = False
    strips: frozenset[str] = frozenset()
    by_message: bool = False
    costs: Mapping[str, PartCost] = field(default_factory=dict)

    def applies(self, concession: str) -> bool:
        """Tell whether a concession is allowed and the template needs it."""
        return concession in self.concessions and _NEEDED[concession](self.profile)


def _carries_calls(profile: TemplateProfile) -> bool:
    # Where not even one call is carried, no reshaping of calls helps.
    return profile.tool_call == profile.tool_result == "kept"


_NEEDED: Mapping[str, Callable[[TemplateProfile], bool]] = {
    "serialise_parallel_calls": lambda profile: _carries_calls(profile) and profile.parallel_calls != "kept",
    "omit_text_beside_call": lambda profile: _carries_calls(profile) and profile.text_beside_call != "kept",
    "join_same_role": lambda profile: "raises" in (profile.neighbouring_users, profile.neighbouring_assistants),
}


def carried_framing(framing: Framing) -> Framing:
    """Return the framing with every concession, for measuring what a template cannot carry (design.md §2)."""
    everything = frozenset({"serialise_parallel_calls", "omit_text_beside_call", "join_same_role"})
    return Framing(
        framing.profile, everything, framing.wrap, drop_unsupported=True, strips=framing.strips,
        costs=framing.costs,
    )  # fmt: skip
