"""Mutants of how summaries, constraints and missing history stand in a plan (issue B, assembly and fallback)."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

_BLOCKS, _RECALL, _LADDER = "steps/frame_blocks.py", "steps/recall_summaries.py", "steps/ladder.py"

MUTANTS = (
    Mutant(
        "steps/seal.py",
        '(f"summary/{entry.id}", "summarizable", entry.covers_to)',
        '(f"summary/{entry.id}", "summarizable", entry.covers_from)',
        "R127",
    ),
    Mutant(
        _BLOCKS,
        'STATE_OPEN, STATE_CLOSE = "[conversation state: written by the application]",',
        'STATE_OPEN, STATE_CLOSE = "[as you said before]",',
        "R128",
    ),
    Mutant(
        _BLOCKS,
        'out += [f"turns {summary.covers_from} to {summary.covers_to}:\\n", leaf, "\\n"]',
        'out += [leaf, "\\n"]',
        "R129 R134",
    ),
    Mutant(
        "steps/horizon.py",
        "covers = covers_of(layered, runs) if has_slot else []",
        "covers = covers_of(layered, runs)",
        "R130",
    ),
    Mutant(
        _BLOCKS,
        'return [*state_frame(first=first)[:1], *inner, f"{closer}\\n"]',
        "return [*state_frame(first=first)[:1], *inner]",
        "R131",
    ),
    Mutant(
        _BLOCKS,
        '(f"{STATE_OPEN}\\n{STATE_WORDING}\\n" if first else f"{STATE_OPEN}\\n")',
        '(f"{STATE_OPEN}\\n{STATE_WORDING}\\n{STATE_WORDING}\\n")',
        "R132",
    ),
    Mutant(
        "steps/recall.py",
        "    ordered = sorted(request.turns, key=lambda turn: turn.sequence)\n    found = relations",
        "    ordered = list(request.turns)\n    found = relations",
        "R135",
    ),
    Mutant(_LADDER, "        if move.comes:\n            runs.append(move.run)\n", "", "R136"),
    Mutant(
        "values/turn.py",
        "return any(message.protection_reason is not None for message in self.messages)",
        "return False",
        "R137 R67@plan_summaries R145 R16 R143",
    ),
    Mutant(_RECALL, "if len(set(ids)) != len(ids):", "if False:", "R138"),
    Mutant(
        _BLOCKS,
        'leaf = _state_leaf(f"summary/{summary.id}", summary.summary_text, "summary")',
        'leaf = _state_leaf(f"summary/{summary.id}", f"{summary.source_fingerprint} {summary.summary_text}",'
        ' "summary")',
        "R139",
    ),
    Mutant(
        "values/check_summary.py",
        "        if missing:\n",
        "        if False:\n",
        "R140@plan_summaries R140@test_check_summary",
    ),
    Mutant(
        _LADDER,
        "return (*entries, *(cover.summary for cover in reversed(waiting)))",
        "return tuple(entries[:4])",
        "R141",
    ),
    Mutant(
        "values/check_summary.py",
        "    broken = _broken(record)\n    if broken is not None:\n        return broken\n",
        "",
        "R142",
    ),
    Mutant("steps/overflow.py", '        "narrow the task, or lower the tail by hand",\n', "", "R144"),
    Mutant(
        _LADDER,
        "    return tuple(entry for entry in layered.constraints if entry.text is not None and entry.turn_id"
        " not in raw)",
        "    return ()",
        "R17",
    ),
    Mutant(
        "values/rung.py",
        "        if len(tail) == tail_turns:\n            break\n",
        "        break\n",
        "R66@plan_summaries",
    ),
    Mutant(
        "steps/ladder.py",
        "    older = layered.older_staying(begin)\n",
        "    older = layered.older_staying(len(layered.history.turns))\n",
        "R68@plan_summaries",
    ),
)
