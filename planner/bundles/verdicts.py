"""The closed set of reasons for which the probe refuses a template, in our words and no others."""

from __future__ import annotations

from planner.values.reasons import PlannerFault

REJECTED = {
    "compile": "it does not compile",
    "nested": "it has a counting loop inside a counting loop",
    "doubles": "it has a text that doubles itself",
    "memory": "it runs out of memory",
    "budget": "it writes more than its output budget",
    "silent": "it carries no conversation, not even one user message",
}
DEPENDENT = {
    "words": "its framing or its contents change with ordinary words",
    "literal": "it looks for an ordinary word and writes something else where it finds it",
}
DETAILS = frozenset((*REJECTED.values(), *DEPENDENT.values()))


def rejected(why: str) -> PlannerFault:
    """Return the fault of a template that is not safe or not valid; `why` is a key of REJECTED."""
    return PlannerFault("template_rejected", REJECTED[why])


def dependent(why: str) -> PlannerFault:
    """Return the fault of a template whose framing depends on content; `why` is a key of DEPENDENT."""
    return PlannerFault("template_content_dependent", DEPENDENT[why])
