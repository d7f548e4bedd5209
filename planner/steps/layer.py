"""Give every item its layer, by source and role alone; no text is ever looked at (R21, R22, design.md §5)."""

from __future__ import annotations

from planner.values.rank import by_value
from planner.values.request import PlanRequest
from planner.values.rung import Block, BlockKind, History, Layered, with_tail
from planner.values.turn import Turn


def layer(request: PlanRequest, history: History) -> Layered:
    """Put the parts of a request in their places."""
    options = request.options
    return Layered(
        policy=request.policy,
        data_scope=request.data_scope,
        output_schema=request.output_schema,
        tools=request.tools,
        request=request.request,
        preferences=request.preferences,
        history=history,
        summaries=history.summaries,
        passages=by_value(request.passages, request.request),
        pinned=with_tail(history, options.tail_turns),
        held=history.held if options.allow_history_eviction else range(len(history.turns)),
        notice=options.history_notice == "prompt",
        edges=options.passage_order == "edges",
        staying_summaries=history.echoing
        if options.allow_history_eviction
        else frozenset(summary.id for summary in history.summaries),
    )


def turn_kind(turn: Turn) -> BlockKind:
    """Return the kind of a turn beside the request's own: pinned where protected or open."""
    return "pinned_turn" if turn.pinned or turn.state == "open" else "summarizable"


def blocks(layered: Layered) -> list[Block]:
    """List every item of a request as a block, immutable ones first, history by sequence."""
    own = layered.request.id or layered.open_turn.id
    out = [Block(f"policy/{item.id}", "immutable_policy") for item in layered.policy]
    out += [Block(f"scope/{item.id}", "immutable_policy") for item in layered.data_scope]
    if layered.output_schema is not None:
        out.append(Block(f"schema/{layered.output_schema.id}", "immutable_policy"))
    out += [Block(f"tool/{tool.id}", "immutable_policy") for tool in layered.tools]
    out += [Block(f"constraint/{entry.id}", "immutable_policy") for entry in layered.constraints]
    out += [Block(f"preference/{item.id}", "required_request") for item in layered.preferences]
    out += [Block(f"parameter/{item.id}", "required_request") for item in layered.request.required_parameters]
    out += [Block(f"turn/{turn.id}", turn_kind(turn), turn.sequence) for turn in layered.history.turns]
    out += [Block(f"summary/{entry.id}", "summarizable", entry.covers_to) for entry in layered.summaries]
    out += [
        Block(
            f"passage/{entry.citation_id}",
            "required_evidence" if entry.citation_id in layered.pinned_passages else "evictable",
            value=entry.relevance,
        )
        for entry in layered.passages
    ]
    out += [Block(one.key, "required_evidence") for one in layered.conflicts]
    out.append(Block(f"turn/{layered.open_turn.id}", "required_request", layered.open_turn.sequence))
    out.append(Block(f"request/{own}", "required_request"))
    return out
