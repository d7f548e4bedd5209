"""Plans from a GGUF file alone: every id equals a plain render of its template, encoded by its tokenizer.

PLANNER_MAX_EXAMPLES sets the number of conversations per file: 24 by default.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from planner.bundles.bundle import FolderBundle
from planner.bundles.open import open_bundle
from planner.planner import Planner
from tests.bundles.gguf.conftest import WITH_TEMPLATE, vocabulary_path
from tests.parity.outcomes import Comparison
from tests.support import conversations
from tests.support.conversations import Conversation
from tests.support.gguf_reference import GgufReference

EXAMPLES = int(os.environ.get("PLANNER_MAX_EXAMPLES", "24"))


@pytest.fixture
def opened(gguf_dir: Path, reference_gguf: Path) -> Callable[[str], tuple[FolderBundle, GgufReference]]:
    """Bundle and reference by name."""

    def by_name(name: str) -> tuple[FolderBundle, GgufReference]:
        path = reference_gguf if name == "reference" else vocabulary_path(gguf_dir, name)
        bundle = open_bundle(path)
        return bundle, GgufReference(path, bundle)

    return by_name


def _without_policy(item: Conversation) -> Conversation:
    """The same list as a caller of a template without a system role has to write it."""
    return replace(item, messages=tuple(one for one in item.messages if one["role"] != "system"))


@pytest.mark.parametrize("name", [*WITH_TEMPLATE, "reference"])
def test_R43_ids_of_a_gguf_plan_equal_a_plain_render(
    opened: Callable[[str], tuple[FolderBundle, GgufReference]], seed: int, name: str
) -> None:
    """No id differs, no list is refused that the template renders whole, no loss passes unnoticed."""
    bundle, reference = opened(name)
    comparison, profile = Comparison(bundle, reference), bundle.profile
    items = conversations.generate(EXAMPLES, seed, tools=comparison.carries_tools)
    if not comparison.carries_tools:
        items += conversations.generate(len(conversations.SHAPES), seed, tools=True)
    for item in items:
        comparison.compare(item if profile.system == "kept" else _without_policy(item))
    out = comparison.out
    assert out.faults == []
    # A tokenizer that could not be cut would be encoded whole by both sides, and prove nothing.
    assert bundle.manifest.encode_mode == "runs"
    assert 2 * out.compared > len(items)
    assert out.raw > 0


def test_a_template_that_drops_the_policy_is_refused_for_one(
    opened: Callable[[str], tuple[FolderBundle, GgufReference]],
) -> None:
    """phi-3's template in its GGUF file has no system role and says nothing about it."""
    bundle, _ = opened("phi-3")
    messages = [{"role": "system", "content": "be short"}, {"role": "user", "content": "hello"}]
    answer = Planner(bundle).plan(messages=messages, max_input_tokens=2_000)
    assert (answer.accepted, answer.reason) == (False, "role_not_supported")
