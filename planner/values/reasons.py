"""The one table of codes: outcomes, refusals, faults, removals and flags, each with meaning and remedy.

docs/reasons.md is generated from it (`python -m planner.cli.main reasons --markdown`); the spellings of the
sources are kept to the letter (R182, X49).
"""

from __future__ import annotations

from planner.values.code import Code
from planner.values.gate_faults import gate_faults
from planner.values.runtime_codes import runtime_faults, runtime_flags, runtime_refusals


def _refusals() -> tuple[Code, ...]:
    overflow = "context_policy_overflow"
    return (
        Code("invalid-input", "refusal", "The request breaks a rule of its format; the detail is a JSON path.",
             "Correct the field at that path."),
        Code("invalid-summary", "refusal", "A summary breaks its gate; it is not used, and with onInvalidSummary "
             "refuse the call is refused.", "Rebuild the summary; with onInvalidSummary raw its turns stay raw."),
        Code("stale-source", "refusal", "A summary's sources changed, or it was made under another policy or strategy "
             "version; it is not used, and with onInvalidSummary refuse the call is refused.",
             "Compact again; a summary of another policy version is used under that version alone."),
        Code("insufficient_evidence", "refusal", "Evidence the answer must cite cannot be in the prompt.",
             "Retrieve again, narrow the question, or use a larger approved tier."),
        Code("protected_source_revoked", "refusal", "A turn that must stay rests on a source that may not be used any "
             "more.", "Resolve or withdraw the turn, or restore the permission."),
        Code("conflict_unexplained", "refusal", "A fact is disputed, the answer has high impact, and the conflict "
             "cannot be stated in the prompt.",
             "Resolve the fact, narrow the question, or use a larger approved tier."),
        Code("not_supported_yet", "refusal", "A field is valid but its rule is not built in this version.",
             "Leave the field out, or use a later version."),
        Code(overflow, "refusal", "Policy, tools and the request alone exceed the budget.",
             "Narrow the task or use a larger approved tier."),
        Code("open_turn_overflow", "refusal", "The open turn with its calls and results exceeds the budget.",
             "Close the turn at a safe point, shorten results, or use a larger approved tier.", overflow),
        Code("protected_history_overflow", "refusal", "Protected turns exceed what is left of the budget.",
             "Resolve pending items or use a larger approved tier.", overflow),
        Code("raw_history_overflow", "refusal", "History that policy forbids to evict exceeds the budget, or a "
             "constraint in force can be carried by nothing.",
             "Allow eviction, lower the tail, compact, or use a larger approved tier; mark a constraint without a text "
             "again with one, or withdraw it.", overflow),
        Code("input_too_large", "refusal", "A required item has more bytes than the window has tokens.",
             "Shorten the item.", overflow),
        Code("template_drops", "refusal", "The chat template loses text of the named kind without an error.",
             "Use a bundle whose template carries it, or allow the concession that is named."),
        Code("template_refuses_shape", "refusal", "The chat template raises on this list of messages.",
             "Change the named turn, or allow the concession that is named."),
        Code("role_not_supported", "refusal", "The chat template has no place for this role.",
             "Use a bundle whose template carries the role."),
        Code("tool_call_shape_not_supported", "refusal", "The chat template cannot carry parallel calls.",
             "Allow serialise_parallel_calls, or use another bundle."),
        Code("nothing_to_answer", "refusal", "The list ends with a completed answer.", "Add a user message."),
        Code("unmeasured_part", "refusal", "An image or sound of the prompt has no declared cost, or states no size.",
             "State its size, declare its cost in the bundle, or leave it out."),
        Code("attribution_lost", "refusal", "Text of the prompt could not be given to the part it came from.",
             "Report it with the bundle digest."),
        Code("control_text_in_field", "refusal", "Content spells a control string in a mode that would obey it.",
             "Use mode ids, or change the text."),
        Code("control_token_forged", "refusal", "A control id arose from content; the plan is not handed out.",
             "Report it with the bundle digest."),
        Code("account_incomplete", "refusal", "An account read back lacks one of its seven fields.",
             "Plan again; do not run this record."),
        Code("template_budget", "refusal", "The template wrote more than its output budget allows.",
             "Do not use this template."),
        Code("tier_not_valid", "refusal", "The tier's validity has ended at now, or cannot be judged without it.",
             "Name a tier that is approved now, or send now."),
        Code("hidden_characters", "refusal", "Content holds characters that are not shown: a flag where they stay, a "
             "refusal where unicodePolicy refuses them.", "Clean the named item, or let unicodePolicy strip them."),
        Code("unrecoverable_history", "refusal", "A purged turn held a constraint in force without words, or an "
             "unfinished item that no summary echoes.", "State the named ids again in a new turn, or end them there."),
        *runtime_refusals(),
    )  # fmt: skip


def _faults() -> tuple[Code, ...]:
    return (
        Code("template_rejected", "fault", "The template is not safe or not valid and was refused at admission.",
             "Do not use this template."),
        Code("template_content_dependent", "fault", "The template's framing depends on the words of a message.",
             "Do not use this template."),
        Code("template_not_portable", "fault", "Another engine renders the chat template otherwise on some shape.",
             "Rewrite what the lint names, or do not use that engine for these shapes."),
        Code("tokenizer_failed", "fault", "The tokenizer file did not load or failed its self-test.",
             "Fetch the original file again."),
        Code("bundle_not_found", "fault", "No bundle of this id or path.", "See planner bundle list."),
        Code("bundle_unavailable", "fault", "The bundle's files are not on this machine.",
             "Install the distribution the manifest names."),
        Code("bundle_has_no_template", "fault", "Folder or file holds no chat template; it can only count.",
             "Add chat_template.jinja from the model's publisher."),
        Code("bundle_mismatch", "fault", "A file differs from the manifest.", "Fetch the file again."),
        Code("bundle_unsafe", "fault", "A model file breaks a bound or is damaged.", "Do not use this file."),
        Code("bundle_path", "fault", "A file name leaves the bundle's folder or is no regular file.",
             "Copy the real file into the folder."),
        Code("bundle_incomplete", "fault", "The folder lacks a file that its tokenizer needs.",
             "Complete the folder; the detail names the file."),
        Code("format_not_supported", "fault", "A known kind of tokenizer or version of a format that is not read.",
             "Use a Hugging Face folder of the same model."),
        Code("geometry_unknown", "fault", "The bundle's files do not say what the model keeps per token.",
             "Name the GGUF file, put config.json into the folder, or state kv in the manifest."),
        Code("hub_failed", "fault", "The hub did not give the files of the model.",
             "Check name, revision and network; nothing is fetched where a plan is made."),
        Code("bundle_exists", "fault", "Another bundle has this id, or the folder is a bundle already.",
             "Choose another id with --id, or replace yours with --replace."),
        Code("engine_not_admitted", "fault", "The fast engine is not equal for this bundle.", "Use the exact one."),
        Code("manifest_invalid", "fault", "bundle.json breaks a rule of its format.", "Correct the field."),
        Code("file_not_readable", "fault", "A file is absent or cannot be read or written.",
             "Check the path and its rights."),
        Code("compaction_off", "fault", "A switch of compaction is off; raw turns and stored rows are as they were.",
             "Switch it on."),
        Code("compaction_read_only", "fault", "Compaction writes nothing while the named items are unmet.",
             "Meet them, or use the trial, which writes nothing."),
        Code("upstream_down", "fault", "The model server does not answer.", "Start it, or check the address."),
        Code("upstream_failed", "fault", "The model server answered with an error, or with what is no answer.",
             "Read the server's own log."),
        Code("runtime_mismatch", "fault", "The runtime counted other tokens than the plan holds.",
             "Use the bundle of the model that the server runs."),
        Code("plan_file_differs", "fault", "The plan file is not the plan that its request gets.",
             "Write the plan file again; if it was not edited, check bundle, ledger and window."),
        Code("replay_differs", "fault", "A recorded call cannot be rebuilt; the part that differs or is gone is named.",
             "Name the bundle, ledger or request of that call; what retention took is gone for good."),
        *gate_faults(),
        Code("policy_rejected", "fault", "The policy breaks a rule of publication; each finding is one line.",
             "Correct what the findings name, or raise a cap by name."),
        Code("environment", "fault", "Something this command needs is missing on this machine.",
             "See planner doctor."),
        *runtime_faults(),
        *_ledger_faults(),
    )  # fmt: skip


def _ledger_faults() -> tuple[Code, ...]:
    return (
        Code("ledger_busy", "fault", "Another writer held the ledger for more than five seconds.",
             "Try again; nothing was written."),
        Code("ledger_full", "fault", "The disk or the size limit of the ledger's file is reached.",
             "Free space and try again; what was acknowledged is kept."),
        Code("ledger_io", "fault", "The ledger's file could not be read or written.",
             "Check the disk and try again; a write that was not acknowledged may be repeated."),
        Code("ledger_read_only", "fault", "The ledger is open for reading, or its file may not be written.",
             "Open it for writing, or correct the rights of its file and folder."),
        Code("ledger_corrupt", "fault", "A row or page of the ledger differs from its digest or its structure.",
             "See planner ledger verify; restore a copy made by the backup interface."),
        Code("ledger_rolled_back", "fault", "The ledger lacks its newest events: it is older than its anchor.",
             "Restore the missing -wal, or accept the loss with planner ledger verify --reanchor."),
        Code("ledger_forked", "fault", "The ledger holds other events than the ones its anchor names.",
             "Find the other copy, or accept this one with planner ledger verify --reanchor."),
        Code("ledger_foreign", "fault", "The file is no ledger of this package.", "Name another path."),
        Code("ledger_newer", "fault", "A later version of this package wrote the ledger.",
             "Use that version or a later one."),
        Code("stale_generation", "fault", "The conversation has another generation than the caller's.",
             "Read the head again and plan again."),
        Code("duplicate_id", "fault", "An id is used again with other fields.", "Use a new id, or edit."),
        Code("conversation_not_found", "fault", "The ledger holds no conversation, branch or record of this id.",
             "Check the id."),
        Code("part_missing", "fault", "An original that replay needs is not in the ledger, or retention took it.",
             "Replay on the machine that planned, before its originals are purged."),
    )  # fmt: skip


def _records() -> tuple[Code, ...]:
    return (
        Code("over_budget", "removal", "Left so that the prompt fits: passages by value, then turns oldest first.",
             "Compact, or use a larger approved tier."),
        Code("low_value", "removal", "A passage under the low-value line or beyond the section's maximum.",
             "Raise its relevance or the maximum."),
        Code("duplicate", "removal", "Says the same as a passage that is kept.", "Remove it from the index."),
        Code("source_share", "removal", "A passage beyond the share that one source may have of the section.",
             "Raise sourceShare, or retrieve from more sources."),
        Code("unauthorised", "removal", "Tenant, dataset or source is not among the caller's claims; counted only.",
             "See the audit record; correct the claims or the metadata."),
        Code("expired", "removal", "Its validity has ended, or cannot be judged without now; counted only.",
             "Retrieve a current version."),
        Code("not_yet_valid", "removal", "Its validity has not begun; counted only.", "None needed."),
        Code("source_revoked", "removal", "A turn that rests on a source which may not be used any more.",
             "Restore the permission, or leave the turn out."),
        Code("too_large", "removal", "Has more bytes than the window has tokens; never encoded.",
             "Shorten it before it is stored."),
        Code("beyond_too_large", "removal", "Older than a turn that was too large; no hole is left.",
             "Shorten the large turn."),
        Code("replaced_by_summary", "removal", "A current summary stands for it.", "None needed."),
        Code("beyond_low_water", "removal", "Left to keep later prompts on the same prefix.",
             "Raise lowWater."),
        Code("sticky_cut", "removal", "Left by the previous cut, which still fits.", "Plan without sticky."),
        Code("cancelled", "removal", "A cancelled turn is never rendered.", "None needed."),
        Code("superseded", "removal", "A superseded turn is never rendered.", "None needed."),
        Code("unclassified_record", "removal", "A legacy record of unknown role or source; kept, never rendered.",
             "Record it again with its role and source."),
        Code("candidate_not_accepted", "removal", "An assistant candidate that was not chosen.", "None needed."),
        Code("summary_slot_missing", "flag", "The bundle has no certified place for a summary; raw turns instead.",
             "Use a bundle with a certified slot."),
        Code("dispute_not_explained", "flag", "A disputed fact is not explained in the prompt; the request said its "
             "impact is low.", "Resolve the fact, or use a larger approved tier."),
        Code("nothing_to_compact", "flag", "No turn may be summarised now, so no summary job starts.",
             "None needed; protected turns and the tail stay raw."),
        Code("not_needed", "removal", "The raw turns fit, so the summary was not needed.", "None needed."),
        Code("overlapped", "removal", "A wider or newer current summary covers some of its turns.", "None needed."),
        Code("no_gain", "removal", "The summary saves no tokens for this bundle; raw turns instead.",
             "None needed."),
        Code("context_unverified", "flag", "The bundle states no context; the request's limit was taken.",
             "State the context in the manifest."),
        Code("reasoning_omitted", "flag", "The template raises on reasoning, which was left out.",
             "None needed."),
        Code("hidden_characters_removed", "flag", "Characters that are not shown were taken out, as asked.",
             "None needed."),
        Code("no_previous_ids", "flag", "previous has no ids, so no common prefix is reported.",
             "Send previous.ids."),
        Code("generated_unknown", "flag", "previous has no generatedIds.", "Send previous.generatedIds."),
        *runtime_flags(),
        Code("appended", "prefix", "The previous prompt is a prefix of this one.", "None needed."),
        Code("cut_moved", "prefix", "Older turns left.", "Set lowWater below 1."),
        Code("summary_changed", "prefix", "Another summary stands in the history.", "None needed."),
        Code("policy_changed", "prefix", "Policy or output schema changed.", "Keep them stable."),
        Code("tools_changed", "prefix", "Tools changed.", "Keep their order and text stable."),
        Code("passages_changed", "prefix", "Passages of the same request changed.", "None needed."),
        Code("template_rewrote", "prefix", "The template wrote earlier text differently.", "None needed."),
    )  # fmt: skip


def _activation() -> tuple[Code, ...]:
    return (
        Code("activation_blocked", "fault", "A template did not pass its gate and is not active; each finding is one "
             "line.", "Correct what the findings name; the template in force stays."),
        Code("no_step_back", "fault", "No template was activated that could be taken back.",
             "None needed: the template in force stays."),
        Code("app_version_out_of_range", "refusal", "The app's version is outside the bounds of the activated "
             "template: a refusal in a conversation opened for another app, else the built-in template stands in.",
             "Open the conversation with the version of the app that asks."),
        Code("app_version_unknown", "flag", "The activated template is bounded and the request states no version that "
             "can be compared; the built-in template stands in.", "Send appVersion as numbers with dots."),
        Code("template_missing", "flag", "The activated template's file is absent or cannot be read; the built-in "
             "template stands in.", "Activate it again."),
        Code("template_altered", "flag", "The activated template's file differs from its digest; the built-in "
             "template stands in.", "Activate it again from its publisher's file."),
        Code("template_base_changed", "flag", "The bundle changed since its template was activated; the built-in "
             "template stands in.", "Activate it again: its budget is measured anew."),
        Code("template_state_damaged", "flag", "The record of activated templates cannot be read; the built-in "
             "template stands in.", "Activate again; the record is written anew."),
    )  # fmt: skip


ROWS = (*_refusals(), *_faults(), *_records(), *_activation())
CODES: dict[str, Code] = {row.name: row for row in ROWS}
OVERFLOW_CODES = frozenset(name for name, row in CODES.items() if "context_policy_overflow" in (name, row.outcome))


def outcome_of(reason: str) -> str:
    """Return the terminal state a refusal with this reason reports.

    A reason may carry a kind after a colon; only the part before it is looked up.

    >>> outcome_of("open_turn_overflow"), outcome_of("template_drops:tools")
    ('context_policy_overflow', 'template_drops:tools')
    """
    row = CODES[reason.partition(":")[0]]
    return row.outcome or reason


class PlannerFault(Exception):  # noqa: N818 - a fault is a named state of bundle or machine, not our error
    """A bundle, a file or the environment cannot be used; `code` is a row of kind fault.

    The message is built from the code and a text-free detail; nothing of a foreign exception is kept.
    """

    def __init__(self, code: str, detail: str) -> None:
        """Make a fault; raises KeyError for a code that is not in the table."""
        CODES[code.partition(":")[0]]
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class RefusalSignal(Exception):  # noqa: N818
    """Carries a refusal out of a step; `pipeline` turns it into a sealed Refusal. Never leaves the package."""

    def __init__(self, reason: str, detail: str, *, concession: str | None = None) -> None:
        """Make a signal; raises KeyError for a code that is not in the table."""
        CODES[reason.partition(":")[0]]
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.concession = concession
