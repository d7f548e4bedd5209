"""Rules of a policy file that make it readable; what keeps a readable one from publication is `lint`'s."""

from __future__ import annotations

from collections.abc import Iterable

from planner.values.account import wire_field
from planner.values.check_frame import check_declaration
from planner.values.field_rules import (
    ID_RULE,
    VERSION_RULE,
    invalid,
    is_id,
    is_share,
    is_version,
    is_whole,
    text_problem,
)
from planner.values.give_way import order_problem
from planner.values.policy_file import PolicyFile

_WHOLE_RULE = "expected a whole number, 0 or more"


def check_policy_file(policy: PolicyFile) -> None:
    """Check ids, texts, declarations, caps, sections and order. Raises RefusalSignal invalid-input."""
    if not is_version(policy.policy_version):
        invalid("$.policyVersion", VERSION_RULE)
    _check_texts("$.policy", "id", ((item.id, item.text) for item in policy.policy))
    _check_texts("$.constraints", "constraintId", ((one.constraint_id, one.text or "") for one in policy.constraints))
    for index, tool in enumerate(policy.tools):
        if not is_id(tool.id):
            invalid(f"$.tools[{index}].id", ID_RULE)
        check_declaration(tool.declaration, f"$.tools[{index}].declaration")
    for name in ("policy", "fresh", "growth"):
        value = getattr(policy.caps, name)
        if value is not None and not is_whole(value):
            invalid(f"$.caps.{wire_field(name)}", _WHOLE_RULE)
    if not is_share(policy.caps.fixed_share) or not policy.caps.fixed_share:
        invalid("$.caps.fixedShare", "expected a number above 0 and up to 1")
    for section in ("history", "summary", "retrieval"):
        for end in ("min", "max"):
            value = getattr(getattr(policy.sections, section), end)
            if value is not None and not is_whole(value):
                invalid(f"$.sections.{section}.{end}", _WHOLE_RULE)
    problem = order_problem(policy.give_way_order)
    if problem:
        invalid("$.giveWayOrder", problem)


def _check_texts(path: str, name: str, pairs: Iterable[tuple[str, str]]) -> None:
    for index, (own, text) in enumerate(pairs):
        if not is_id(own):
            invalid(f"{path}[{index}].{name}", ID_RULE)
        problem = text_problem(text)
        if problem:
            invalid(f"{path}[{index}].text", problem)
