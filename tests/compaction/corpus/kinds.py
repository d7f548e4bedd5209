"""What every kind of adversarial case is labelled: where it can be seen, the verdict, what is wrong."""

from __future__ import annotations

_REFUSED = {
    "malformed_output": (
        "truncated_json", "not_an_object", "prose_only", "json_in_prose", "text_ok", "duplicate_key",
        "not_a_number", "huge_integer", "too_deep", "too_many_entries", "too_many_bytes",
    ),
    "wrong_shape": ("missing_key", "extra_key", "wrong_type", "missing_sources", "empty_sources"),
    "empty_goal": ("empty_goal",),
    "blank_text": ("blank_text", "action_without_text"),
    "constraint_missing": ("constraint_dropped",),
    "constraint_unknown": ("constraint_invented", "constraint_of_another_run", "constraint_id_altered"),
    "constraint_repeated": ("constraint_duplicated",),
    "source_unknown": ("alias_unknown", "alias_beyond_run", "source_of_another_run"),
    "decision_without_user": ("decision_only_assistant", "decision_only_tool"),
    "literal_not_cited": (
        "number_not_cited", "number_of_another_message", "number_swapped_between_items", "unit_not_cited",
        "file_not_cited", "invented_fact",
    ),
    "owner_not_cited": ("owner_not_cited", "owner_swapped_between_items"),
    "question_and_decision": ("question_as_decision",),
    "open_item_mismatch": (
        "open_item_missing", "open_item_invented", "open_item_other_status", "open_item_as_decided",
    ),
    "action_status": ("action_unknown_status",),
    "not_traceable": (
        "risky_item_without_excerpt", "excerpt_blank", "excerpt_not_substring", "excerpt_of_uncited_message",
    ),
    "tool_result_copied": ("tool_result_copied",),
}  # fmt: skip
_UNSEEN = {
    "wrong_number": ("number_swap_in_message",),
    "wrong_owner": ("owner_swap_in_message",),
    "promoted_question": ("question_promoted_reworded",),
    "lost_negation": ("negation_dropped",),
    "wrong_statement": ("wrong_without_literal",),
}
_HARMLESS = (
    "control_string_inside", "claim_of_a_higher_layer", "constraint_text_ignored", "spelled_otherwise",
)  # fmt: skip

KINDS: dict[str, tuple[str, str, str | None]] = {
    **{kind: ("structural", "invalid-summary", reason) for reason, kinds in _REFUSED.items() for kind in kinds},
    **{kind: ("semantic", "accept", reason) for reason, kinds in _UNSEEN.items() for kind in kinds},
    **dict.fromkeys(_HARMLESS, ("structural", "accept", None)),
}
"""kind -> (label, verdict, reason)."""
