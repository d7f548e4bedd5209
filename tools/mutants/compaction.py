"""Mutants of what is summarised, how, and how an answer is judged (issue B, compaction)."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

_PROPOSE, _CHECK, _SUMMARY = "compaction/propose.py", "compaction/check.py", "values/check_summary.py"
_PROMPT, _ACCEPT, _PRINT = "compaction/prompt.py", "compaction/accept.py", "values/fingerprint.py"

MUTANTS = (
    Mutant(
        _PROPOSE, "candidates[-settings.tail_turns].sequence if", "candidates[-1].sequence if", "R62 R66@compaction"
    ),
    Mutant(_PROPOSE, "source_revision=material.revision,", "source_revision=0,", "R63"),
    Mutant(
        _PROPOSE,
        "    ordered = sorted(material.turns, key=lambda turn: turn.sequence)\n    _check_supersedes",
        "    ordered = list(material.turns)\n    _check_supersedes",
        "R65",
    ),
    Mutant(_SUMMARY, 'if turn.state != "completed" or turn.pinned or', "if turn.pinned or", "R57"),
    Mutant(
        _PROPOSE,
        "        if turn.id not in covered:\n            kept.append(turn)\n",
        "        kept.append(turn)\n",
        "R69 R205",
    ),
    Mutant(
        _PROPOSE,
        "    ordered = sorted(material.turns, key=lambda turn: turn.sequence)\n    _check_supersedes",
        "    ordered = material.turns\n    ordered.sort(key=lambda turn: turn.sequence)\n    _check_supersedes",
        "R70",
    ),
    Mutant(
        _PROPOSE,
        'return Unplanned("nothing_to_compact", "source_revoked" if left else "")',
        'return Unplanned("invalid-input", "")',
        "R72@compaction",
    ),
    Mutant(_PROMPT, 'Never copy a long result."', 'Copy it."', "R74@test_prompt"),
    Mutant(
        _ACCEPT, "protected_fingerprint=run.protected_fingerprint,", "protected_fingerprint=None,", "R75@compaction"
    ),
    Mutant(_ACCEPT, "id=case.summary_id,", 'id="summary",', "R76@compaction"),
    Mutant(
        _PRINT,
        "shown = replace(turn, messages=source_messages(turn))",
        "shown = replace(turn, material=None, messages=source_messages(turn))",
        "R79",
    ),
    Mutant(
        _PRINT,
        "hashlib.sha256(self._value + turn_digest(shown)).digest()",
        "hashlib.sha256(self._value + repr(shown).encode()).digest()",
        "R80",
    ),
    Mutant(
        _PRINT,
        "for turn in sorted(turns, key=lambda turn: turn.sequence):\n        chain.add(turn)",
        "for turn in turns:\n        chain.add(turn)",
        "R81@compaction",
    ),
    Mutant(_PRINT, "It is no authentication", "It is an authentication", "R83"),
    Mutant(
        _SUMMARY,
        "if was.source_ids != now.source_ids:",
        "if set(was.source_ids) != set(now.source_ids):",
        "R84@compaction",
    ),
    Mutant(_SUMMARY, "if record.strategy_version != frame.strategy_version:", "if False:", "R86@compaction"),
    Mutant(
        _PROMPT, '"questions": list of {"text", "sources"}, information', '"open": list, information', "R87@test_prompt"
    ),
    Mutant(
        "compaction/answer.py",
        "if type(labels) is not list or any(type(label) is not str for label in labels) or (sources and not labels):",
        "if not labels or not value:",
        "R89",
    ),
    Mutant(
        _PROMPT, "- Each entry is one sentence that is understood alone", "- Each entry is a word, understood", "R90"
    ),
    Mutant(_PROMPT, "- Leave out greetings, thanks, small talk and repeated background.\n", "", "R91@test_prompt"),
    Mutant(_CHECK, 'refuse("literal_not_cited", place, flaw)', "pass", "R93"),
    Mutant(_ACCEPT, 'if letter == "d" or _confirmed(', "if True or _confirmed(", "R95"),
    Mutant(
        _SUMMARY,
        "if not record.summary_text.strip() or not record.state.goal.strip():",
        "if not record.summary_text.strip():",
        "R97",
    ),
    Mutant(_SUMMARY, "    if before != after:\n", "    if before - after:\n", "R99"),
    Mutant(_SUMMARY, "    if before != after:\n", "    if after - before:\n", "R100"),
    Mutant(_CHECK, 'refuse("constraint_missing", "constraints", min(missing_ids))', "pass", "R102"),
    Mutant(
        "compaction/answer.py",
        'refuse("blank_text", path)\n    if type(entry.get',
        "pass\n    if type(entry.get",
        "R103",
    ),
    Mutant(_CHECK, 'refuse("question_and_decision", path)', "pass", "R104 R106@test_check"),
    Mutant("compaction/answer.py", 'if status and entry.get("status") not in get_args(Status):', "if False:", "R105"),
    Mutant(
        _PROMPT,
        "the latest explicit one is the decision, and the contradiction is \\\na question",
        "any one is the decision, and the contradiction is \\\nnothing",
        "R106@test_prompt",
    ),
    Mutant(_PROMPT, "In order of weight:\n1. explicit decisions of the user;\n2. limits", "1. limits", "R107"),
    Mutant(_CHECK, "    if not keeps.excerpts:\n        return\n", "    return\n", "R110"),
    Mutant("compaction/strategy.py", '("high", "code"): _TRACED,', '("high", "code"): _IDS,', "R111"),
    Mutant(
        _ACCEPT,
        '("plan", plan.plan_id, case.active_plan_id),',
        '("plan", plan.plan_id, plan.plan_id),',
        "R115@compaction",
    ),
    Mutant(_ACCEPT, "    if isinstance(moved, Run):\n        return None\n", "    return None\n", "R118@test_accept"),
    Mutant(
        _SUMMARY,
        "return [turn for turn in turns if interval.covers_from <= turn.sequence <= interval.covers_to]",
        "return [turn for turn in turns if interval.covers_from <= turn.sequence]",
        "R117@test_accept R117@test_check_summary",
    ),
    Mutant(
        _SUMMARY,
        '    return ("source_changed", None) if was.source_fingerprint != now.source_fingerprint else None',
        "    return None",
        "R118@test_check_summary R206",
    ),
    Mutant(
        _SUMMARY,
        "if frame.revision is not None and record.source_revision != frame.revision:",
        "if False:",
        "R120@test_check_summary",
    ),
    Mutant(
        _SUMMARY,
        "return [turn for turn in turns if interval.covers_from <= turn.sequence <= interval.covers_to]",
        "return list(turns)",
        "R207",
    ),
    Mutant(
        "steps/advise.py",
        "for one in (request.options.compact_at, bundle_share, DEFAULT_COMPACT_AT)",
        "for one in (DEFAULT_COMPACT_AT,)",
        "R170",
    ),
    Mutant("steps/advise.py", "    while end > 0 and left:\n", "    while False:\n", "R171"),
    Mutant(_PROPOSE, "if not is_whole(settings.tail_turns, 1):", "if False:", "R64"),
    Mutant(
        _SUMMARY, 'if turn.state != "completed" or turn.pinned or', 'if turn.state != "completed" or', "R67@compaction"
    ),
    Mutant(
        _PROPOSE,
        "        if turn.id not in covered:\n            kept.append(turn)\n",
        "        if turn.id not in covered:\n            kept += [turn] * (1 + turn.pinned)\n",
        "R68@compaction",
    ),
    Mutant(
        _SUMMARY,
        "source_fingerprint=fingerprint(covered),",
        "source_fingerprint=fingerprint([covered[0], covered[-1]]),",
        "R71",
    ),
    Mutant(
        _PROMPT, "        for call in message.tool_calls:\n", "        for call in message.tool_calls[:0]:\n", "R73"
    ),
    Mutant(
        _PROMPT,
        "yield _indented(message.tool_result.text)",
        "yield _indented(message.tool_result.text[:60])",
        "R74@test_small_talk",
    ),
    Mutant(_CHECK, 'refuse("empty_goal", "goal")', "pass", "R101 R78@compaction"),
    Mutant(
        _PRINT,
        "for turn in sorted(turns, key=lambda turn: turn.sequence):\n        chain.add(turn)",
        "for turn in sorted(turns, key=lambda turn: -turn.sequence):\n        chain.add(turn)",
        "R82",
    ),
    Mutant(
        _SUMMARY, "    return _changed(before, now) or now\n", "    return now\n", "R85@plan_summaries R118@test_accept"
    ),
    Mutant(_SUMMARY, "if record.policy_version != frame.policy_version:", "if False:", "R85@compaction"),
    Mutant(_ACCEPT, "questions=stored(answer.questions),", "questions=(),", "R87@test_accept R88"),
    Mutant(_PROMPT, "a choice that was made to decisions", "a choice", "R92"),
    Mutant(
        "compaction/answer.py",
        'decisions=_entries(value, "decisions", sources=True),',
        'decisions=_entries(value, "decisions"),',
        "R94",
    ),
    Mutant(_ACCEPT, "        summariser_bundle=case.summariser_bundle,\n", "", "R96"),
    Mutant(
        _SUMMARY,
        'if sorted(entry.id or "" for entry in record.state.constraints) != sorted(record.required_constraint_ids):',
        "if False:",
        "R98",
    ),
    Mutant(_PROMPT, "Guess nothing, invent nothing, fill no gap.", "Fill every gap.", "R108"),
    Mutant("compaction/answer.py", "fenced = _FENCED.fullmatch(text)", "fenced = _FENCED.search(text)", "R109"),
    Mutant(_PROMPT, "A complete state is better than a short one.", "A short state is better.", "R112"),
    Mutant(
        _ACCEPT,
        'return Rejected("invalid-summary", "no_answer: $")',
        'return Rejected("stale-source", "no_answer: $")',
        "R114@compaction",
    ),
    Mutant(_SUMMARY, 'return "protection_changed", turn.id', 'return "source_changed", turn.id', "R119@compaction"),
    Mutant("steps/advise.py", "if input_tokens < threshold:", "if input_tokens <= threshold:", "R170@compaction"),
    Mutant(
        "steps/advise.py", "if request.previous is not None and request.previous.advice_fired:", "if False:", "R169"
    ),
    Mutant(
        _PROMPT,
        "            yield _indented(words)\n",
        "            yield _indented(words[:10])\n",
        "R91@test_small_talk",
    ),
    Mutant(
        _PRINT,
        "hashlib.sha256(self._value + turn_digest(shown)).digest()",
        "hashlib.sha256(self._value + str(id(turn)).encode()).digest()",
        "R81@ledger/test_summaries",
    ),
    Mutant(
        "compaction/cost.py", 'if reuse == "any_revision" and revision', "if False and revision", "R120@test_advise"
    ),
)
