"""The reviewed engines, one row each (facts-runtimes.md §1, §2, §5, §7). A row names the version it was reviewed for.

An engine without a row is refused by name: another one's limits are never taken for its own (R173).
"""

from __future__ import annotations

from planner.values.runtime import RuntimeProfile

_ROWS = (
    RuntimeProfile(
        name="transformers",
        accepts_ids=True,
        limit_compare="ge",
        versions=("5.24.0",),
        evidence="S",
        cache_rule="prefix",
        reported_meaning="whole_prompt",
        context_variables=("bos_token", "eos_token", "pad_token", "unk_token", "strftime_now"),
    ),
    RuntimeProfile(
        name="llama.cpp",
        accepts_ids=True,
        limit_compare="ge",
        versions=("xllamacpp-2026.10.11549",),
        evidence="M",
        # A prompt and an answer that fill the window exactly are reported as truncated.
        kept_back_tokens=1,
        window_multiple=256,
        begin_rule="once",
        normalises_text=False,
        silent_loss="output",
        cache_rule="prefix",
        reported_meaning="whole_prompt",
        context_variables=("bos_token", "eos_token", "strftime_now"),
        message_changes=(
            "null_content_is_empty", "typed_parts_joined_by_newline", "arguments_printed_again",
            "floats_to_six_digits", "last_assistant_is_prefill",
        ),
    ),
    RuntimeProfile(
        name="litert-lm",
        accepts_ids=False,
        limit_compare="ge",
        # The month of the source that was read; no released version has been run.
        versions=("2025-06",),
        evidence="S",
        begin_rule="always",
        cache_rule="append",
        reported_meaning="session_with_reasoning",
        reported_when="before_rollback",
    ),
    RuntimeProfile(
        name="onnx-genai",
        accepts_ids=True,
        # A prompt as long as the limit is taken and raises at the first generated token.
        limit_compare="ge",
        versions=("0.18.0",),
        evidence="M",
        normalises_text=False,
        reported_meaning="session_with_output",
        message_changes=("old_reasoning_kept",),
    ),
    RuntimeProfile(
        name="mlx-lm",
        accepts_ids=True,
        # It checks nothing; beyond the window a rotating cache loses the front, so the window is kept for it.
        # No version has been run.
        limit_compare="ge",
        versions=(),
        evidence="S",
        begin_rule="once",
        silent_loss="input",
        cache_rule="prefix",
        reported_meaning="whole_prompt",
    ),
)  # fmt: skip

RUNTIMES = {row.name: row for row in _ROWS}
"""Name to row."""
