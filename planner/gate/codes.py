"""Why a release is blocked: one table of code, meaning and remedy; docs/gate.md repeats it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GateCode:
    """One row; `where` says what it is about: a cell, the receipts handed in, or the run as a whole."""

    name: str
    where: str
    meaning: str
    remedy: str


_CELL = (
    GateCode("outcome_differs", "cell", "The answer is not the one the sample demands.", "Read the sample's receipt."),
    GateCode("immutable_missing", "cell", "A rule, tool, schema or required parameter is not in the prompt.",
             "Never release: find out who drops it."),
    GateCode("immutable_removed", "cell", "The plan says itself that it removed a rule.",
             "Never release: find out who drops it."),
    GateCode("constraint_lost", "cell", "A live constraint is carried by no turn, summary or rule.",
             "Compact again; look at the summary's gate."),
    GateCode("constraint_withdrawn", "cell", "A constraint is live that the user has withdrawn.",
             "Look at supersedes of the turns."),
    GateCode("over_limit", "cell", "Prompt, reserve and margin exceed the limit.", "Report it: this is a bug."),
    GateCode("limit_raised", "cell", "The limit that was planned with is above the sample's, the tier's or the "
             "bundle's: a larger window may not hide a loss.", "Plan within the approved tier."),
    GateCode("account_differs", "cell", "The lines of the account do not add up to the ids.",
             "Report it: this is a bug."),
    GateCode("digest_differs", "cell", "The digest of the final input is not that of the ids.",
             "Do not edit receipts; if nobody did, report it."),
    GateCode("parity_mismatch", "cell", "The bundle's own tokenizer gives other ids for the prompt.",
             "Check the bundle: planner bundle check."),
    GateCode("structure_rejected", "cell", "The plan file fails the structural validator.", "See planner verify."),
    GateCode("turns_reordered", "cell", "Turns are not in the order of their sequences.", "Report it: this is a bug."),
    GateCode("ended_turn_present", "cell", "A cancelled or superseded turn is in the prompt.",
             "Look at the states of the turns."),
    GateCode("turn_beside_its_summary", "cell", "A turn stands in the prompt beside a summary that covers it.",
             "Report it: this is a bug."),
    GateCode("expected_missing", "cell", "Something the sample demands is not in the prompt.",
             "Read the sample's receipt."),
    GateCode("unwanted_present", "cell", "Something that the sample forbids is in the prompt.",
             "Read the sample's receipt; for a passage check claims and dates."),
    GateCode("citation_not_permitted", "cell", "A passage without its right, or a turn that cites one, is in a prompt.",
             "Never release: find out who admits it."),
    GateCode("summary_fate_differs", "cell", "A summary was used that may not be, or the reverse.",
             "Read the cause in the receipt."),
    GateCode("reduction_differs", "cell", "History was cut where it need not be, or the reverse.",
             "Read the sample's receipt."),
    GateCode("policy_over_cap", "cell", "Policy and tools take more tokens than the candidate's cap.",
             "Shorten them, or raise the cap by name."),
    GateCode("fixed_share_over_cap", "cell", "Policy and tools take more than their share of the limit.",
             "Shorten them, or use a larger approved tier."),
    GateCode("fresh_over_cap", "cell", "A plan has more fresh tokens than the candidate's cap.",
             "Look at what broke the common prefix."),
    GateCode("lifecycle_broken", "cell", "A step of a lifecycle script ended otherwise than it must.",
             "Read the step that is named."),
    GateCode("output_limit_differs", "cell", "The plan lets a runtime write more or less than the reserve.",
             "Hand plan.max_output_tokens on as it is."),
    GateCode("file_differs", "cell", "The plan file does not add up to the ids, or names what is not in the plan.",
             "Write it from the plan, not by hand."),
    GateCode("constraint_unknown", "cell", "A constraint is carried that no turn or summary of the request marks.",
             "Look at where it came from: no model may make a rule."),
    GateCode("plan_id_differs", "cell", "The plan's id is not that of its planner, bundle and request.",
             "Do not edit receipts; if nobody did, report it."),
    GateCode("request_differs", "cell", "The receipt names another conversation, generation, policy or time than the "
             "request.", "Do not edit receipts; if nobody did, report it."),
    GateCode("kept_differs", "cell", "The receipt lists other items than the plan.",
             "Do not edit receipts; if nobody did, report it."),
    GateCode("removed_differs", "cell", "The receipt lists other removals than the plan, or something twice.",
             "Do not edit receipts; if nobody did, report it."),
    GateCode("stale_summary_used", "cell", "A summary stands in the prompt whose sources or versions changed.",
             "Never release: find out who trusts it."),
    GateCode("summary_versions_differ", "cell", "The versions in the receipt are not those of the summaries used.",
             "Do not edit receipts; if nobody did, report it."),
    GateCode("sample_too_large", "cell", "A sample at the limit does not fit whole into the bundle's context.",
             "Shorten the sample."),
    GateCode("bundle_unusable", "cell", "The bundle cannot be opened or used.", "See planner bundle check."),
    GateCode("identity_differs", "cell", "Bundle or sample state another version or digest than the candidate; the "
             "field is named.", "Make the candidate anew (planner gate candidate), or write the sample anew."),
    GateCode("count_not_exact", "cell", "A count is an upper bound, or one that only a runtime made.",
             "Use a runtime that takes ids."),
)  # fmt: skip
_RECEIPTS = (
    GateCode("receipt_of_other_bundle", "receipts", "A receipt of another bundle cannot sign for this one.",
             "Run the device tests again with this bundle."),
    GateCode("receipt_of_other_candidate", "receipts", "A receipt of another candidate cannot sign for this one.",
             "Run the device tests again with this candidate."),
    GateCode("receipt_simulated", "receipts", "A simulated or estimated count is no execution.",
             "Run it on the device."),
    GateCode("runtime_count_differs", "receipts", "The runtime reported another number of tokens than was planned.",
             "See planner bundle check --remeasure."),
    GateCode("evidence_failed", "receipts", "A part of the evidence names failed cases, or none at all.",
             "Mend what fails and run that part again."),
    GateCode("receipt_unreadable", "receipts", "A file among the receipts is no receipt with its observation.",
             "Remove it, or write it again."),
)  # fmt: skip
_RUN = (
    GateCode("growth_over_cap", "run", "The fixed part grew by more than the candidate's cap since the last release.",
             "Shorten what is named, or raise the cap on purpose."),
    GateCode("family_missing", "run", "A family has no sample for a bundle.", "Add samples: planner gate init."),
    GateCode("bundle_missing", "run", "A bundle of the candidate was not run, or one was that is not the candidate's.",
             "Name the candidate's bundles."),
    GateCode("runtime_not_verified", "run", "The matrix names a runtime that the bundle's manifest does not.",
             "Name the runtime in the manifest: planner bundle add --runtime."),
    GateCode("nothing_run", "run", "No cell was run.", "Name samples and bundles."),
)  # fmt: skip

ROWS = (*_CELL, *_RECEIPTS, *_RUN)
GATE_CODES = {row.name: row for row in ROWS}
"""Every reason a gate may name."""
