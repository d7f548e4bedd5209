"""Plans of one conversation after another as they grow: what a runtime with a cache is given in its life."""

from __future__ import annotations

import random

from planner.planner import Planner
from planner.values.plan import Plan
from planner.values.request import CONCESSIONS, Options
from tests.support import conversations


def growing_plans(planning: Planner, seed: int, total: int, widest: int) -> list[Plan]:
    """Return plans of generated conversations: each beginning of one, then all of it in a window too small for it.

    widest  tokens of the window in which everything fits.
    """
    draw, made, number = random.Random(seed), [], 0
    while len(made) < total:
        item = conversations.conversation(seed, number, conversations.SHAPES[number % len(conversations.SHAPES)])
        number += 1
        users = [at for at, one in enumerate(item.messages) if one["role"] == "user"]
        window = widest
        for messages in (*(item.messages[: at + 1] for at in users), item.messages, item.messages):
            reserved = draw.choice([1, 6, 64])
            answer = planning.plan(
                messages=messages, tools=item.tools or None, max_input_tokens=window, reserved_output_tokens=reserved,
                options=Options(concessions=CONCESSIONS),
            )  # fmt: skip
            if isinstance(answer, Plan):
                made.append(answer)
                if messages is item.messages:
                    window = int(len(answer.ids) * draw.uniform(0.5, 0.95)) + 64
    return made[:total]
