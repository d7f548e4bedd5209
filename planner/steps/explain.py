"""Say in one code why a template cannot carry a rung, and which concession would help (design.md §2, §6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.steps.frame import Framed
from planner.values.profile import Carried, TemplateProfile
from planner.values.prompt import Leaf

SERIALISE, OMIT, JOIN = "serialise_parallel_calls", "omit_text_beside_call", "join_same_role"


@dataclass(frozen=True, slots=True)
class Problem:
    """A shape the template cannot carry: reason code, text-free detail, concession that would help."""

    reason: str
    detail: str
    concession: str | None = None


def explain_loss(lost: Sequence[Leaf], framed: Framed, profile: TemplateProfile) -> Problem:
    """Name the first lost text: policy, tools, then the oldest turn; within a turn call, result, text."""
    order = {turn_id: index for index, (turn_id, _) in enumerate(framed.turns)}
    rank = {"policy": 0, "tools": 1}
    within = {"call": 0, "result": 1, "system_text": 2, "user_text": 2, "assistant_text": 2}

    def key(leaf: Leaf) -> tuple[int, int, int]:
        return rank.get(leaf.kind, 2), order.get(leaf.turn, -1), within.get(leaf.kind, 3)

    leaf = min(lost, key=key)
    turn = f"turn {leaf.turn}" if leaf.turn else leaf.item
    if leaf.kind == "policy":
        if profile.system != "kept":
            return Problem("role_not_supported", "role system")
        return Problem("template_drops:policy", leaf.item)
    if leaf.kind == "tools":
        return Problem("template_drops:tools", leaf.item)
    if leaf.kind == "call":
        parallel = not leaf.path.endswith("/1")
        if parallel and profile.tool_call == "kept" and profile.parallel_calls != "kept":
            return Problem("tool_call_shape_not_supported", f"{turn}: parallel calls", SERIALISE)
        return Problem("template_drops:call", turn)
    if leaf.kind == "system_text":
        return Problem("role_not_supported", f"{turn}: role {leaf.role}")
    if leaf.kind == "assistant_text" and leaf.path == "beside_call":
        return Problem("template_drops:assistant_text", f"{turn}: text beside a call", OMIT)
    return Problem(f"template_drops:{leaf.kind}", turn)


def explain_raise(
    framed: Framed, profile: TemplateProfile, *, has_policy: bool, conceded_raises: bool
) -> Problem | None:
    """Ask the profile why a render failed; None where it knows no reason.

    conceded_raises  the render fails with every concession too, so none of them explains it.
    """
    if has_policy and profile.system != "kept":
        return Problem("role_not_supported", "role system")
    if framed.inputs.tools and profile.tools != "kept":
        return Problem("template_drops:tools", "the tools variable")
    for turn_id, turn in framed.turns:
        found = _turn_problem(f"turn {turn_id}", turn.shapes, framed, profile)
        if found is not None and not (conceded_raises and found.concession):
            return found
        if conceded_raises:
            continue
        second = [role for role, at in framed.neighbours.items() if at == turn_id]
        for role in second:
            carried = profile.neighbouring_users if role == "user" else profile.neighbouring_assistants
            if carried == "raises":
                return Problem("template_refuses_shape", f"turn {turn_id}: two {role} messages in a row", JOIN)
    return None


def _turn_problem(turn: str, shapes: frozenset[str], framed: Framed, profile: TemplateProfile) -> Problem | None:
    if "tool_call" in shapes and profile.tool_call != "kept":
        return _lost_or_refused(profile.tool_call, "call", turn)
    parallel_left = "parallel_calls" in shapes and SERIALISE not in framed.used
    if parallel_left and profile.parallel_calls != "kept":
        return Problem("tool_call_shape_not_supported", f"{turn}: parallel calls", SERIALISE)
    if "tool_result" in shapes and profile.tool_result != "kept":
        return _lost_or_refused(profile.tool_result, "result", turn)
    for role in ("system", "developer"):
        if f"late_{role}" in shapes and getattr(profile, f"late_{role}") != "kept":
            return Problem("role_not_supported", f"{turn}: role {role}")
    beside_left = "text_beside_call" in shapes and OMIT not in framed.used
    if beside_left and profile.text_beside_call != "kept":
        return Problem("template_drops:assistant_text", f"{turn}: text beside a call", OMIT)
    return None


def _lost_or_refused(carried: Carried, kind: str, turn: str) -> Problem:
    """Name a call or result the template has no place for: raised on, or dropped without a word."""
    if carried == "raises":
        return Problem("template_refuses_shape", f"{turn}: a {kind}")
    return Problem(f"template_drops:{kind}", turn)
