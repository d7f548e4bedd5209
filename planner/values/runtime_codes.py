"""The rows of the table of codes that are about runtimes: their limits, their counts, their certificates."""

from __future__ import annotations

from planner.values.code import Code


def runtime_refusals() -> tuple[Code, ...]:
    """Return why no plan is made for a runtime."""
    return (
        Code("runtime_limit", "refusal", "The runtime's own limits leave no room: its window, its least prefill or "
             "its most output.", "Reserve less, or run it with a larger window."),
        Code("runtime_not_certified", "refusal", "The runtime was not shown to read this text or these messages as the "
             "plan does.", "Use mode ids, or planner bundle certify for this runtime and version."),
        Code("runtime_takes_no_ids", "refusal", "The bundle's runtime cannot be given token ids.",
             "Certify it for mode text or messages, and plan in that mode."),
    )  # fmt: skip


def runtime_faults() -> tuple[Code, ...]:
    """Return why a bundle's runtime or what is known of it cannot be used."""
    return (
        Code("bundle_blocked_by_drift", "fault", "The bundle's runtime counted other tokens than a plan held; no "
             "further plan is made with it.", "Find the cause, then planner bundle check ID --remeasure."),
        Code("record_damaged", "fault", "A record of the bundle in the user's folder cannot be read; it may be what "
             "blocks it.", "Measure the bundle again: planner bundle check ID --remeasure."),
        Code("certificate_refused", "fault", "The runtime reads what we hand over otherwise than planned; no "
             "certificate is written.", "Declare what the runtime adds as overheadTokens, or use mode ids."),
    )  # fmt: skip


def runtime_flags() -> tuple[Code, ...]:
    """Return what a receipt notes of the bundle's runtime."""
    return (
        Code("runtime_none", "flag", "The bundle names no runtime; nothing was deducted for one.",
             "Name a runtime in the manifest."),
        Code("runtime_unverified", "flag", "The runtime's version is not stated, or its rules were reviewed for "
             "another.", "State a reviewed version in the manifest."),
        Code("template_unstable", "flag", "The template writes earlier text differently than in the previous prompt; "
             "what a runtime kept of it ends there.", "Use a template whose prompts only grow, or switch thinking on."),
    )  # fmt: skip
