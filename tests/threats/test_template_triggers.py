"""Templates that wait: the probe saw nothing, a long chat sets them off (threats.md §2.5, H29).

Each of these passes every static rule and grows only beyond 40 messages. The plan is refused with
template_budget, the memory it took is bounded, and the next short request is served.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.bundles.open import open_bundle
from planner.encoding.template import TemplateFailure, pieces, render_plain
from planner.encoding.template_bounds import OutputBudgetExceeded, set_bound
from planner.encoding.template_static import runaway
from planner.encoding.tracked_template import render_tracked
from planner.planner import Planner
from planner.values.plan import Plan, Refusal
from tests.bad_inputs.build_bundles import good_bundle
from tests.threats.support import CANARY, MIB, Poisoned, child, served

SAME = "{% macro same(x) %}{{ x }}{% endmacro %}"
LOOP = "{% set d = namespace(x='ab', l=[1]) %}{% for i in range(40) %}"
STOP = "{% endfor %}{{ d.x }}"

GROWTHS = {
    "macro that prints twice": "{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}" + LOOP
                               + "{% set d.x = twice(d.x) %}" + STOP,
    "set block that prints twice": SAME + LOOP + "{% set y %}{{ d.x }}{{ same(d.x) }}{% endset %}{% set d.x = y %}"
                                   + STOP,
    "tilde of calls": SAME + LOOP + "{% set d.x = same(d.x) ~ same(d.x) %}" + STOP,
    "sum of calls": SAME + LOOP + "{% set d.x = same(d.x) + same(d.x) %}" + STOP,
    "list of slices": LOOP + "{% set d.l = d.l[:] + d.l[:] %}" + STOP,
    "join filter": SAME + LOOP + "{% set d.x = [same(d.x), same(d.x)] | join %}" + STOP,
    "join method": SAME + LOOP + "{% set d.x = ''.join([same(d.x), same(d.x)]) %}" + STOP,
    "join by a long separator": "{{ range(100000) | join(messages[0].content * 50) | length }}",
    "replace filter": SAME + LOOP + "{% set d.x = same(d.x) | replace('a', 'aa') | replace('b', 'ab') %}" + STOP,
    "replace method": SAME + LOOP + "{% set d.x = same(d.x).replace('a', 'aa').replace('b', 'ab') %}" + STOP,
    "format filter": SAME + LOOP + "{% set d.x = '%s%s' | format(same(d.x), same(d.x)) %}" + STOP,
    "format method": SAME + LOOP + "{% set d.x = '{0}{0}'.format(same(d.x)) %}" + STOP,
    "format by name": SAME + LOOP + "{% set d.x = '{a}{a}'.format(a=same(d.x)) %}" + STOP,
    "percent operator": SAME + LOOP + "{% set d.x = '%(a)s%(a)s' % {'a': same(d.x)} %}" + STOP,
    "wide number, filter": "{{ '%300000000d' | format(1) | length }}",
    "wide number, operator": "{{ ('%*d' % (300000000, 1)) | length }}",
    "wide number, method": "{{ '{:300000000d}'.format(1) | length }}",
    "wide number, nested field": "{{ '{:{}d}'.format(1, 300000000) | length }}",
    "indent": "{{ ('a\n' * 4000) | indent(100000) | length }}",
    "indented JSON": "{{ messages | tojson(indent=10000000) | length }}",
    "replace at once": "{{ ('a' * 10000) | replace('a', 'b' * 20000) | length }}",
    "replace method at once": "{{ ('a' * 10000).replace('a', 'b' * 20000) | length }}",
    "join method at once": "{{ ('b' * 20000).join(['a'] * 10000) | length }}",
    "format of many fields": "{{ ('{0}' * 10000).format('b' * 20000) | length }}",
    "format of one field again and again": "{{ ('{0}' * 200).format('b' * 20000) | length }}",
    "format of an object": "{{ ('{0}' * 10000).format(messages) | length }}",
    "percent of many fields": "{{ (('%(a)s' * 10000) % {'a': 'b' * 20000}) | length }}",
    "batch": "{{ [1] | batch(1000000000, 'x') | list | length }}",
    "slice": "{{ [1] | slice(1000000000) | list | length }}",
    "wordwrap": "{{ ('a b ' * 10000) | wordwrap(1, wrapstring='b' * 9000) | length }}",
    "product": "{{ messages[0].content * 1000000 }}",
    "power": "{{ 10 ** 100000000 }}",
    "writing loop": "{% for i in range(100000) %}{{ messages[0].content * 100 }}{% endfor %}",
}  # fmt: skip
TAKEN_AWAY = {
    "padding": "{{ 'a'.ljust(1000000000) }}",
    "translate": "{{ ('a' * 100000).translate({97: 'b' * 100000}) }}",
    "centring": "{{ 'a' | center(1000000000) }}",
}
TRIGGER = "{%% if messages | length > 40 %%}%s{%% endif %%}"


def long_chat(count: int = 31) -> list[dict[str, str]]:
    """A chat of so many turns; its first text is the canary."""
    said = [CANARY, *(f"question {number}" for number in range(1, count))]
    chat = [message for text in said for message in ({"role": "user", "content": text},
                                                     {"role": "assistant", "content": "yes"})]  # fmt: skip
    return chat[:-1]


@pytest.mark.parametrize("name", GROWTHS)
def test_H29_a_growth_that_waits_ends_in_template_budget(name: str) -> None:
    """As a value, with no word of the template or the chat; a short chat is served before and after."""
    assert runaway(TRIGGER % GROWTHS[name]) is None
    planner = Planner(Poisoned(TRIGGER % GROWTHS[name]))
    served(planner)
    answer = planner.plan(messages=long_chat(), max_input_tokens=8_000)
    assert isinstance(answer, Refusal)
    assert answer.reason == "template_budget"
    assert CANARY not in repr(answer) + answer.line()
    served(planner)


@pytest.mark.parametrize("name", TAKEN_AWAY)
def test_what_no_template_needs_is_not_there(name: str) -> None:
    """Such a template is refused as a shape, or does not compile; it never runs away."""
    planner = Planner(Poisoned(TRIGGER % TAKEN_AWAY[name]))
    answer = planner.plan(messages=long_chat(), max_input_tokens=8_000)
    assert isinstance(answer, Refusal)
    assert answer.reason == "template_refuses_shape"


@pytest.mark.parametrize("name", GROWTHS)
def test_the_plain_render_is_bounded_as_the_tracked_one(name: str) -> None:
    """The audit renders plainly, the probe too."""
    values = {"messages": [{"role": "user", "content": CANARY}]}
    for render in (render_plain, render_tracked):
        with pytest.raises(OutputBudgetExceeded):
            render(GROWTHS[name], values, 100_000)


def test_such_a_template_does_pass_admission(tmp_path: Path) -> None:
    """Which is why the plan's own bounds are needed."""
    folder = good_bundle(tmp_path, manifest=False)
    path = folder / "chat_template.jinja"
    trigger = TRIGGER % GROWTHS["macro that prints twice"]
    path.write_text(path.read_text(encoding="utf-8") + trigger, encoding="utf-8")
    planner = Planner(open_bundle(folder))
    answer = planner.plan(messages=long_chat(), max_input_tokens=8_000)
    assert isinstance(answer, Refusal)
    assert answer.reason == "template_budget"


def test_all_of_them_together_stay_within_the_bound_of_memory() -> None:
    """One process, every growth once: 64 MiB above a process that planned the same chat without them."""
    program = """
from planner.planner import Planner
from tests.threats.support import Poisoned
from tests.threats.test_template_triggers import GROWTHS, TRIGGER, long_chat
Planner(Poisoned("")).plan(messages=long_chat(), max_input_tokens=8_000)
before, reasons = peak(), []
for growth in GROWTHS.values():
    answer = Planner(Poisoned(TRIGGER % growth)).plan(messages=long_chat(), max_input_tokens=8_000)
    reasons.append(answer.reason)
print(json.dumps({"grown": peak() - before, "reasons": reasons}))
"""
    pytest.importorskip("resource")
    found = child(program)
    assert set(found["reasons"]) == {"template_budget"}
    assert found["grown"] <= 64 * MIB
    assert found["stderr"] == ""


def test_a_bound_of_one_render_does_not_outlive_it() -> None:
    """Also where the render raised or was given up half way."""
    outer = set_bound(12_345)
    try:
        render_plain("{{ 'a' ~ 'b' }}", {}, 100)
        with pytest.raises(OutputBudgetExceeded):
            render_plain("{{ x ~ x }}", {"x": "a" * 80}, 100)
        with pytest.raises(TemplateFailure):
            render_plain("{{ raise_exception('x') }}", {}, 100)
        half = pieces_of_two()
        next(half)
        half.close()
        assert set_bound(12_345) == 12_345
    finally:
        set_bound(outer)


def pieces_of_two() -> object:
    """Two pieces, of which a test takes one."""
    from planner.encoding.template import compile_plain

    return pieces(compile_plain("{{ a }}{{ b }}"), {"a": "1", "b": "2"}, 100)


def test_honest_text_near_the_budget_is_not_refused() -> None:
    """A template that repeats its whole input seven times writes what its budget allows."""
    planner = Planner(Poisoned("{% set all = namespace(x='') %}{% for m in messages %}"
                               "{% set all.x = all.x ~ m.content %}{% endfor %}{{ (all.x * 6)[:0] }}"))  # fmt: skip
    text = "word " * 20_000
    answer = planner.plan(messages=[{"role": "user", "content": text}], max_input_tokens=200_000)
    assert isinstance(answer, Plan) or answer.reason == "context_policy_overflow"


def test_a_template_that_runs_out_of_memory_is_template_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever no bound foresaw: the machine says no, the plan is refused and the next one served."""
    planner = Planner(Poisoned("{{ bos_token | wasteful if messages | length > 40 else '' }}"))
    from planner.encoding import template

    made = template.make_environment

    def wasteful(_value: object) -> str:
        raise MemoryError

    def with_filter(*kind: type[template.TemplateEnvironment]) -> template.TemplateEnvironment:
        environment = made(*kind)
        environment.filters["wasteful"] = wasteful
        return environment

    monkeypatch.setattr("planner.encoding.tracked_template.make_environment", with_filter)
    answer = planner.plan(messages=long_chat(), max_input_tokens=8_000)
    assert isinstance(answer, Refusal)
    assert answer.reason == "template_budget"
    served(planner)


def test_the_list_covers_every_way_to_grow() -> None:
    """Twelve trigger fixtures at least (threats.md §2.5)."""
    assert len(GROWTHS) >= 12
    assert json.dumps(sorted(GROWTHS))
