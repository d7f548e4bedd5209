"""chatlint's opinion of published templates beside the probe's: other conversations, other renderer, same template.

chatlint_differences.json holds every point on which they part, with the reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.values.profile import TemplateProfile
from tests.support.portability_table import PLAIN, profile_of

pytestmark = pytest.mark.runtime
chatlint = pytest.importorskip("chatlint.shapes", reason="chatlint is not installed (the extra `opinions`)")
FULL = bool(os.environ.get("PLANNER_FULL"))
DIFFERENCES = json.loads((Path(__file__).parent / "chatlint_differences.json").read_text(encoding="utf-8"))
SAMPLE = {
    "Apertus-8B-Instruct", "MiniMax-M2", "Qwen-Qwen3-0.6B", "Qwen3.5-4B", "google-gemma-2-2b-it",
    "meta-llama-Llama-3.2-3B-Instruct", "mistralai-Mistral-Nemo-Instruct-2407", "openai-gpt-oss-120b",
    "trl-llava_next", "trl-phi3",
}  # fmt: skip
CARRIED = {
    "system": ("system_only", "system"),
    "late_system": ("system_midway", "system"),
    "neighbouring_users": ("consecutive_user", "user"),
    "neighbouring_assistants": ("consecutive_assistant", "assistant"),
    "text_beside_call": ("tool_preamble", "assistant"),
}
"""Field of the profile to a shape of chatlint and the role whose text it follows."""
CLOCK = ("plain_multiturn", "no_system", "tool_simple", "tools_declared_unused")


class Opinion:
    """What chatlint finds on its own shapes."""

    def __init__(self, name: str, source: str) -> None:
        from chatlint.render import Template

        self._template = Template(name, source)
        self._shapes = {shape.name: shape for shape in chatlint.all_shapes()}

    def _result(self, check: str, shape: str) -> Any:
        from chatlint import properties, structure

        found = getattr(properties, check, None) or getattr(structure, check)
        return found(self._template, self._shapes[shape])

    def raises(self, shape: str) -> bool:
        from chatlint.properties import ERROR

        return bool(self._result("check_renders", shape).verdict == ERROR)

    def carried(self, shape: str, role: str) -> str:
        if self.raises(shape):
            return "raises"
        metrics = self._result("check_content_order", shape).metrics or {}
        return "dropped" if (metrics.get("kind"), metrics.get("role")) == ("dropped", role) else "kept"

    def points(self) -> dict[str, object]:
        from chatlint.properties import FAIL

        points: dict[str, object] = {field: self.carried(*where) for field, where in CARRIED.items()}
        points["uses_clock"] = any(self._result("check_time_invariance", one).verdict == FAIL for one in CLOCK)
        points["null_content"] = self.raises("tool_simple") and not self.raises("tool_preamble")
        points["reasoning"] = "raises" if self.raises("think_then_answer") else "passed"
        return points


def ours(profile: TemplateProfile) -> dict[str, object]:
    """Return the probe's answer to the same questions."""
    return {
        **{field: getattr(profile, field) for field in CARRIED},
        "uses_clock": profile.uses_clock,
        "null_content": profile.null_content == "raises",
        "reasoning": profile.reasoning,
    }


def templates(shared: Path) -> Iterator[tuple[str, str, TemplateProfile]]:
    """Yield what is compared: a sample, all in the long run; a template that the probe refuses has no profile."""
    for path in sorted((shared / "templates").glob("*.jinja")):
        if FULL or path.stem in SAMPLE:
            source = path.read_text(encoding="utf-8")
            if profile_of(source) is not PLAIN:
                yield path.stem, source, profile_of(source)


def test_the_probe_and_chatlint_agree_or_the_difference_is_explained(shared_dir: Path) -> None:
    """Eight questions a template; every point on which they part stands in the data file, and none that does not."""
    found: dict[str, set[str]] = {}
    for name, source, profile in templates(shared_dir):
        theirs, mine = Opinion(name, source).points(), ours(profile)
        parted = {field for field, answer in theirs.items() if answer != mine[field]}
        if parted:
            found[name] = parted
    expected = {name: set(row["points"]) for row in DIFFERENCES for name in row["templates"] if FULL or name in SAMPLE}
    assert expected == found


def test_string_arguments_that_raise_there_are_parsed_by_us(shared_dir: Path) -> None:
    """A template on which a JSON text raises is one we give an object."""
    for name, source, profile in templates(shared_dir):
        opinion = Opinion(name, source)
        if opinion.raises("tool_arguments_as_string") and not opinion.raises("tool_simple"):
            assert profile.text_arguments == "object", name
