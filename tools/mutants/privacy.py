"""Mutants of what no message, profile or failure may show or miss (R188)."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

_MEASURE = "bundles/measure_text.py"

MUTANTS = (
    Mutant(
        "values/check_turn.py",
        'invalid(f"{path}.state", "is not one of the states of a turn")',
        'invalid(f"{path}.state", f"{turn.state} is not one of the states of a turn")',
        "R188@test_privacy",
    ),
    Mutant(
        "bundles/measure.py",
        "return bool(bos) and text is not None and text.lstrip().startswith(bos)",
        "return bool(bos)",
        "R188@test_probe",
    ),
    Mutant("bundles/measure.py", '    raise rejected("silent")\n', "    return\n", "R188_a_template_bomb"),
    Mutant(_MEASURE, "    for text in CONTENTS:\n", "    for text in ():\n", "R188_a_poisoned"),
    Mutant(
        _MEASURE,
        '            raise dependent("literal")\n',
        "            continue\n",
        "R188_a_poisoned",
    ),
    Mutant(
        "values/summary.py",
        "    summary_text: str = field(repr=False)\n",
        "    summary_text: str\n",
        "R188@test_summary_upkeep",
    ),
)
