"""context-planner: which token ids go to the model, what was left out, and why.

>>> import planner
>>> chat = [{"role": "user", "content": "How many moons has Mars?"}]
>>> planner.plan(messages=chat, bundle="reference").accepted
True

Names are loaded when they are first used: importing the package alone imports no third-party library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.compaction.call import Summariser
    from planner.compactor.service import Compactor
    from planner.compactor.shown import Choices
    from planner.conversation import Conversation
    from planner.ledger.ledger import Ledger
    from planner.planner import PlanEvent, Planner
    from planner.values.account import Account
    from planner.values.observation import Observation, Reported
    from planner.values.passage import Passage
    from planner.values.plan import Advice, Plan, PlanFile, Refusal
    from planner.values.reasons import PlannerFault, RefusalSignal
    from planner.values.receipt import Receipt, Removal
    from planner.values.request import (
        CurrentRequest,
        Options,
        OutputSchema,
        PlanRequest,
        Previous,
        TextItem,
        Tool,
    )
    from planner.values.resolution import FactDecision
    from planner.values.summary import SummaryRecord
    from planner.values.switches import Switches
    from planner.values.turn import Message, MustPreserve, OpenItem, Part, ToolCall, ToolResult, Turn

__version__ = "0.1.0"

__all__ = [
    "Account",
    "Advice",
    "Choices",
    "Compactor",
    "Conversation",
    "CurrentRequest",
    "FactDecision",
    "Ledger",
    "Message",
    "MustPreserve",
    "Observation",
    "OpenItem",
    "Options",
    "OutputSchema",
    "Part",
    "Passage",
    "Plan",
    "PlanEvent",
    "PlanFile",
    "PlanRequest",
    "Planner",
    "PlannerFault",
    "Previous",
    "Receipt",
    "Refusal",
    "RefusalSignal",
    "Removal",
    "Reported",
    "Summariser",
    "SummaryRecord",
    "Switches",
    "TextItem",
    "Tool",
    "ToolCall",
    "ToolResult",
    "Turn",
    "__version__",
    "plan",
]

_HOMES = {
    "planner.compaction.call": ("Summariser",),
    "planner.compactor.service": ("Compactor",),
    "planner.compactor.shown": ("Choices",),
    "planner.conversation": ("Conversation",),
    "planner.ledger.ledger": ("Ledger",),
    "planner.planner": ("PlanEvent", "Planner"),
    "planner.values.account": ("Account",),
    "planner.values.observation": ("Observation", "Reported"),
    "planner.values.passage": ("Passage",),
    "planner.values.plan": ("Advice", "Plan", "PlanFile", "Refusal"),
    "planner.values.reasons": ("PlannerFault", "RefusalSignal"),
    "planner.values.receipt": ("Receipt", "Removal"),
    "planner.values.request": (
        "CurrentRequest", "Options", "OutputSchema", "PlanRequest", "Previous", "TextItem", "Tool",
    ),
    "planner.values.resolution": ("FactDecision",),
    "planner.values.summary": ("SummaryRecord",),
    "planner.values.switches": ("Switches",),
    "planner.values.turn": ("Message", "MustPreserve", "OpenItem", "Part", "ToolCall", "ToolResult", "Turn"),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
_planners: dict[str, Planner] = {}


def plan(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
    *,
    bundle: str = "qwen3-0.6b",
    **fields: Any,
) -> Plan | Refusal:
    """Plan one call from an OpenAI-style list of messages, in one line.

    messages  chat messages as a chat API takes them; the last user message and what follows is the request.
    tools     tool declarations as a chat API takes them.
    bundle    a bundle id; it is opened once per process and kept.
    fields    further fields of PlanRequest, such as max_input_tokens=8192, or max_tokens for the reserve.
    Returns a Plan, or a Refusal for every problem of the list and the template.
    Raises PlannerFault where the bundle cannot be used.
    """
    return _planner(bundle).plan(messages=messages, tools=tools, **fields)


def _planner(bundle: str) -> Planner:
    found = _planners.get(bundle)
    if found is None:
        from planner.planner import Planner

        # Two threads may both make one: the first to be stored wins, and a Planner loads nothing by itself.
        found = _planners.setdefault(bundle, Planner(bundle))
    return found


def __getattr__(name: str) -> Any:
    """Load a public name from its home at first use."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'planner' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
