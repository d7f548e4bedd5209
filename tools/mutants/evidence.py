"""Mutants of what may be used and of what is said about it (issue C)."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "steps/admit.py",
        "if text.tenant is None or text.tenant != claims.tenant:",
        "if text.tenant is None:",
        "R159 R160",
    ),
    Mutant(
        "steps/admit.py", "if text.dataset is None or text.dataset not in claims.datasets:", "if False:", "R15 R161"
    ),
    Mutant("steps/admit.py", "if text.source is None or text.source.id not in claims.sources:", "if False:", "R159"),
    Mutant("steps/admit.py", "if text.valid_to is not None and now >= instant(text.valid_to):", "if False:", "R160"),
    Mutant("steps/recall_revoked.py", "    if not revoked:\n        return history\n", "    return history\n", "R148"),
    Mutant(
        "steps/evidence.py",
        "against = other is not None and other.fact_value not in (fact.fact_value, *fact.rejected_values)",
        "against = False",
        "R155 R157 R158",
    ),
    Mutant("steps/evidence.py", "not in (fact.fact_value, *fact.rejected_values)", "!= fact.fact_value", "R156"),
    Mutant(
        "steps/evidence.py",
        'raise RefusalSignal("insufficient_evidence", f"evidence group {number}: none of {\', \'.join(group)}")',
        "continue",
        "R168",
    ),
    Mutant(
        "values/rank.py",
        "passage.citation_id not in needed, -passage.relevance, grade_of(passage),",
        "passage.citation_id not in needed, grade_of(passage), -passage.relevance,",
        "R162",
    ),
    Mutant("values/rank.py", "passage.citation_id not in needed, -passage.relevance,", "-passage.relevance,", "R162"),
    Mutant(
        "steps/ladder_passages.py",
        'leave([passage for passage in movable if passage.citation_id in duplicates], "duplicate")',
        "pass",
        "R163 R164",
    ),
    Mutant("steps/ladder_passages.py", 'leave(low, "low_value")', "pass", "R163"),
    Mutant(
        "steps/ladder_passages.py",
        "    for passage in reversed(left):\n        if passage.citation_id in pinned:\n"
        "            continue\n        tokens",
        "    for passage in reversed(left):\n        if passage.citation_id in"
        ' pinned or "SYSTEM" in passage.text or "must be kept" in passage.text:\n            continue\n'
        "        tokens",
        "R24 R166",
    ),
    Mutant("steps/layer.py", 'edges=options.passage_order == "edges"', "edges=False", "R167"),
    Mutant(
        "lint.py",
        "found = [*_duplicate_ids(policy), *_duplicate_wording(policy), *_without_text(policy)]",
        "found = [*_duplicate_ids(policy), *_without_text(policy)]",
        "R26",
    ),
    Mutant(
        "lint.py",
        "most = math.floor(Fraction(repr(caps.fixed_share)) * cost.input_limit)",
        "most = cost.input_limit",
        "R27",
    ),
    Mutant("steps/overflow.py", "if tier.max_input_tokens >= need", "if True", "R30"),
    Mutant("steps/overflow.py", "        and is_valid(tier, now)\n", "", "R30"),
    Mutant(
        "values/relations.py",
        "withdrawn += [(marks.pop(name)[0], turn) for name in turn.supersedes if name in marks]",
        "withdrawn += [(marks[name][0], turn) for name in turn.supersedes if name in marks]",
        "R152 R151@plan_summaries R153@plan_summaries",
    ),
    Mutant("steps/answer.py", 'remedy = CODES[signal.reason.partition(":")[0]].remedy', 'remedy = ""', "R150_end"),
    Mutant(
        "steps/removed.py",
        "    reduced = _reduced(layered, ranges)",
        "    reduced = None",
        "R150_no R147 R146@compactor",
    ),
    Mutant(
        "values/reasons.py",
        'Code("unrecoverable_history", "refusal", "A purged turn',
        'Code("unrecoverable-history", "refusal", "A purged turn',
        "R183_underscore",
    ),
    Mutant("steps/recall.py", "    if lost:\n        where", "    if False:\n        where", "R183_other"),
    Mutant("steps/seal.py", '"preference": "required_request",', '"preference": "immutable_policy",', "R23"),
    Mutant(
        "steps/seal.py",
        'layer = "required_evidence" if passage.citation_id in pinned else "evictable"',
        'layer = "required_evidence" if passage.fact_key else "evictable"',
        "R165",
    ),
    Mutant(
        "steps/layer.py",
        'return "pinned_turn" if turn.pinned or turn.state == "open" else "summarizable"',
        'return "pinned_turn" if any("keep" in one.words() for one in turn.messages) else "summarizable"',
        "R25_priority",
    ),
    Mutant(
        "values/turn.py",
        "return any(message.protection_reason is not None for message in self.messages)",
        'return any("must" in one.words() or "keep" in one.words() for one in self.messages)',
        "R22",
    ),
    Mutant(
        "steps/ladder.py",
        "    if layered.held:\n        staying = staying.union(layered.held)\n",
        '    staying |= {at for at in every if "keep" in layered.history.turns[at].messages[0].words()}\n',
        "R25_no",
    ),
)
