"""Frame what does not change per turn: the system message and the tools (design.md §6)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.steps.framing import Framing
from planner.steps.hidden import Found, found_in_leaves
from planner.values.prompt import Leaf
from planner.values.request import OutputSchema, TextItem, Tool
from planner.values.rung import Layered

SCHEMA_LABEL = "Answer with JSON that follows this schema:"
# Keywords of JSON Schema and of tool declarations stay plain: they cannot spell a control token, and one
# owner less each is what keeps a large tool list cheap. Every other key is content and is owned.
_SCHEMA_WORDS = frozenset(
    (
        "type function name description parameters properties required items enum format minimum maximum "
        "default title anyOf oneOf allOf not const pattern minLength maxLength minItems maxItems uniqueItems "
        "strict additionalProperties exclusiveMinimum exclusiveMaximum multipleOf nullable examples return "
        "returns $schema $ref $defs definitions"
    ).split()
)


@dataclass(slots=True)
class FixedParts:
    """The framed system message and tools of the last request, used again while they are the same."""

    system_of: tuple[Any, ...] | None = None
    system: tuple[dict[str, Any], tuple[Leaf, ...]] | None = None
    tools_of: tuple[Tool, ...] | None = None
    tools: tuple[list[dict[str, Any]] | None, tuple[Leaf, ...]] = (None, ())
    system_hidden: tuple[Found, ...] = ()
    tools_hidden: tuple[Found, ...] = ()

    def take(self, layered: Layered, framing: Framing) -> None:
        """Frame what changed."""
        wanted = (layered.policy, layered.data_scope, layered.output_schema)
        if self.system_of != wanted:
            self.system = frame_system(*wanted, framing)
            self.system_of = wanted
            self.system_hidden = found_in_leaves(self.system[1] if self.system else ())
        if self.tools_of != layered.tools:
            self.tools = frame_tools(layered.tools, framing)
            self.tools_of = layered.tools
            self.tools_hidden = found_in_leaves(self.tools[1])


def frame_system(
    policy: Sequence[TextItem],
    data_scope: Sequence[TextItem],
    schema: OutputSchema | None,
    framing: Framing,
) -> tuple[dict[str, Any], tuple[Leaf, ...]] | None:
    """Return the one system message and its leaves, None where there is nothing to say."""
    pieces: list[str | Leaf] = []
    for kind, items in (("policy", policy), ("scope", data_scope)):
        for item in items:
            pieces += [
                "\n\n",
                Leaf(item=f"{kind}/{item.id}", section="policy", kind="policy", text=item.text, role="system"),
            ]
    if schema is not None:
        text = json.dumps(schema.schema, ensure_ascii=False)
        pieces += [
            "\n\n" + SCHEMA_LABEL + "\n",
            Leaf(
                item=f"schema/{schema.id}", section="policy", kind="policy", text=text, role="system",
                of_which="schema",
            ),
        ]  # fmt: skip
    if not pieces:
        return None
    content: str = ""
    leaves: list[Leaf] = []
    for index, piece in enumerate(pieces):
        if isinstance(piece, Leaf):
            leaves.append(piece)
            content = content + framing.wrap(piece)
        else:
            content = content + (piece.removeprefix("\n\n") if index == 0 else piece)
    shown: Any = [{"type": "text", "text": content}] if framing.profile.content_form == "parts" else content
    return {"role": "system", "content": shown}, tuple(leaves)


def frame_tools(tools: Sequence[Tool], framing: Framing) -> tuple[list[dict[str, Any]] | None, tuple[Leaf, ...]]:
    """Return the `tools` variable, None where there are none, and the leaves of every declaration."""
    leaves: list[Leaf] = []

    def wrap(tool: Tool, value: Any, path: str, depth: tuple[str, ...]) -> Any:
        if isinstance(value, str):
            leaf = Leaf(
                item=f"tool/{tool.id}", section="tool", kind="tools", text=value, role="tools", path=path,
                required=_required(depth),
            )  # fmt: skip
            leaves.append(leaf)
            return framing.wrap(leaf)
        if isinstance(value, Mapping):
            return {
                key
                if key in _SCHEMA_WORDS and (not depth or depth[-1] != "properties")
                else wrap(tool, key, f"{path}.{key}", (*depth, key, "<key>")): wrap(
                    tool, inner, f"{path}.{key}", (*depth, key)
                )
                for key, inner in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [wrap(tool, inner, f"{path}[{index}]", (*depth, "[]")) for index, inner in enumerate(value)]
        return value

    framed = [wrap(tool, tool.declaration, f"tools.{tool.id}", ()) for tool in tools]
    return (framed or None), tuple(leaves)


def _required(depth: tuple[str, ...]) -> bool:
    """Name, description, and names and descriptions of top-level parameters make a tool (design.md §4.1)."""
    path = depth[1:] if depth[:1] == ("function",) else depth
    if path in (("name",), ("description",)):
        return True
    if path[:2] != ("parameters", "properties"):
        return False
    return len(path) == 4 and path[3] in ("<key>", "description")
