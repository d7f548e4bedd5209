"""unsloth #6164: the server advertised 98,304 tokens, one slot had 24,576."""

from __future__ import annotations

from dataclasses import replace

from planner.planner import Planner
from planner.values.plan import Plan
from planner.values.runtime import Runtime
from planner.values.runtime_rows import RUNTIMES
from tests.peers.support import chat
from tests.support.toy import ToyBundle

LLAMA = RUNTIMES["llama.cpp"]


def limit(runtime: Runtime | None, context: int | None, asked: int | None = None) -> tuple[int, tuple[str, ...]]:
    """Return the limit a plan was made for, and its flags."""
    bundle = ToyBundle(runtime=runtime, context_tokens=context, longest_token_bytes=None)
    answer = Planner(bundle).plan(chat(max_input_tokens=asked))
    assert isinstance(answer, Plan)
    return answer.account.input_limit, answer.receipt.flags


def test_T19_the_window_is_what_one_slot_has() -> None:
    """Window / slots, whether the window was declared for the engine or is the model's own, and whatever is asked."""
    reviewed = Runtime(LLAMA, LLAMA.versions[0], slots=4, context_tokens=98_304)
    assert (24_575, ()) == limit(reviewed, 131_072)
    assert (24_575, ()) == limit(reviewed, 131_072, asked=98_304)
    assert (24_575, ()) == limit(reviewed, None)
    assert (24_575, ()) == limit(replace(reviewed, context_tokens=None), 98_304)
    assert (8_000, ()) == limit(reviewed, 131_072, asked=8_000)


def test_T19_a_window_nobody_verified_is_named() -> None:
    """No runtime, an unreviewed version, no stated window: each is a flag, which the release gate refuses."""
    assert ("runtime_none",) == limit(None, 9_000)[1]
    assert ("runtime_none", "context_unverified") == limit(None, None, asked=9_000)[1]
    assert ("runtime_unverified",) == limit(Runtime(LLAMA), 9_000)[1]
    assert ("runtime_unverified",) == limit(Runtime(LLAMA, "b9999"), 9_000)[1]
    assert (8_999, ("context_unverified",)) == limit(Runtime(LLAMA, LLAMA.versions[0]), None, asked=9_000)


def test_T19_a_slot_is_rounded_up_only_where_that_was_seen() -> None:
    """The reviewed version rounds a slot up to a multiple of 256, never over the model's context; others may not."""
    asked = {100: 256, 256: 256, 257: 512, 513: 512, 600: 512}
    reviewed = Runtime(LLAMA, LLAMA.versions[0])
    assert asked == {given: replace(reviewed, context_tokens=given).slot_tokens(512) for given in asked}
    assert [256, 256] == [replace(reviewed, context_tokens=512, slots=2).slot_tokens(512),
                          replace(reviewed, context_tokens=256, slots=4).slot_tokens(512)]  # fmt: skip
    assert 257 == Runtime(LLAMA, "b9999", context_tokens=257).slot_tokens(512)
