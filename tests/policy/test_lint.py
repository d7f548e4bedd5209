"""R26, R27, X15: what keeps a policy from publication, and what it costs on each bundle."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from planner.cli.main import group, run
from planner.lint import fixed_cost, growth, judge_cost, lint, lint_bundles
from planner.planner import Planner
from planner.values.plan import Plan
from planner.values.policy_file import Caps, FixedCost, PolicyFile
from planner.values.reasons import RefusalSignal
from planner.values.request import CurrentRequest, PlanRequest, TextItem
from planner.values.turn import Message, MustPreserve, Turn
from planner.wire.dump import dump_record
from planner.wire.parse import parse_policy_file
from tests.laws.common import toy
from tests.strategies import tool_of
from tests.support.toy import ToyBundle

TOY = "toy-plain-char"
CLEAN = PolicyFile(
    "v1", (TextItem("tone", "Answer briefly."), TextItem("money", "Never promise a refund.")),
    (tool_of("send", "Send a mail"), tool_of("book", "Book a room")), (MustPreserve("late", "no calls after 22:00"),),
)  # fmt: skip


def _codes(policy: PolicyFile, published: PolicyFile | None = None) -> list[tuple[str, ...]]:
    return [(one.code, *one.ids) for one in lint(policy, published)]


def _cost(policy: PolicyFile, planner: Planner | None = None, limit: int | None = 9_000) -> FixedCost:
    found = fixed_cost(policy, (planner or toy()).plan, TOY, limit)
    assert isinstance(found, FixedCost), found
    return found


def test_R26_rules_have_stable_ids_no_duplicates() -> None:
    """Duplicate ids, wording alike but for case, width, spaces and punctuation, renamed ids: one finding each."""
    assert [] == _codes(CLEAN) == _codes(CLEAN, CLEAN)
    twice = replace(CLEAN, policy=(*CLEAN.policy, TextItem("tone", "Answer in English.")))
    assert [("duplicate_id", "policy/tone")] == _codes(twice)
    for wording in ("never promise a refund", "NEVER  promise\na refund!", "Ｎｅｖｅｒ promise a refund.",
                    "Never promise a re\u200bfund.", "Never promise a re\u00adfund"):  # fmt: skip
        again = replace(CLEAN, policy=(*CLEAN.policy, TextItem("cash", wording)))
        assert [("duplicate_wording", "policy/money", "policy/cash")] == _codes(again), wording
    other = replace(CLEAN, policy=(*CLEAN.policy, TextItem("cash", "Never promise two refunds.")))
    assert [] == _codes(other)
    same = replace(CLEAN, constraints=(MustPreserve("late", "Answer briefly"),))
    assert [("duplicate_wording", "policy/tone", "constraint/late")] == _codes(same)
    tools = replace(CLEAN, tools=(*CLEAN.tools, replace(CLEAN.tools[0], id="other")))
    assert [("duplicate_id", "tool name/send")] == _codes(tools)
    renamed = replace(CLEAN, policy_version="v2", policy=(TextItem("style", "Answer briefly!"), CLEAN.policy[1]))
    assert [("id_changed", "policy/tone", "policy/style")] == _codes(renamed, CLEAN)


def test_a_changed_policy_needs_another_version_and_keeps_its_order() -> None:
    """The same version with other texts, and rules or tools in another order, are findings; a new rule is none."""
    more = replace(CLEAN, policy=(*CLEAN.policy, TextItem("new", "Be kind.")))
    assert [("version_unchanged", "v1")] == _codes(more, CLEAN)
    assert [] == _codes(replace(more, policy_version="v2"), CLEAN)
    turned = replace(CLEAN, policy_version="v2", policy=CLEAN.policy[::-1], tools=CLEAN.tools[::-1])
    assert [("order_changed", "policy"), ("order_changed", "tool")] == _codes(turned, CLEAN)


def test_every_constraint_and_rule_has_words() -> None:
    """A constraint that cannot be carried in the application's words is a finding."""
    silent = replace(CLEAN, policy=(*CLEAN.policy, TextItem("empty", " \u200b")),
                     constraints=(MustPreserve("late"), MustPreserve("soon", "...")))  # fmt: skip
    assert [("rule_without_text", "policy/empty"), ("constraint_without_text", "constraint/late"),
            ("constraint_without_text", "constraint/soon")] == _codes(silent)  # fmt: skip


def test_R27_fixed_cost_computed_at_publication() -> None:
    """The cost per bundle is what a plan with the policy pays; a cap on share, tokens or growth fails publication."""
    cost = _cost(CLEAN)
    asked = PlanRequest(TOY, CurrentRequest(id="q", text="?"), policy=CLEAN.policy, tools=CLEAN.tools,
                        max_input_tokens=9_000, reserved_output_tokens=0)  # fmt: skip
    plan = toy().plan(asked)
    assert isinstance(plan, Plan)
    assert cost.fixed_tokens - cost.constraint_tokens == len(plan.ids) - plan.account.request_tokens
    texts = {"tone": len("Answer briefly."), "money": len("Never promise a refund.")}
    assert texts == dict(cost.policy)
    assert sum(texts.values()) == cost.policy_tokens
    assert cost.tool_tokens == sum(tokens for _, tokens in cost.tools)
    marked = Turn("t", 1, "completed", (Message("user", text="x" * 9_000),), must_preserve=CLEAN.constraints)
    bare = replace(asked, policy=(), tools=())
    sizes = [toy().plan(replace(bare, turns=turns)) for turns in ((), (marked,))]
    assert all(isinstance(one, Plan) for one in sizes)
    assert cost.constraint_tokens == len(sizes[1].ids) - len(sizes[0].ids) > len("no calls after 22:00")  # type: ignore[union-attr]
    for share, limit, codes in ((0.25, cost.fixed_tokens * 4, []), (0.25, cost.fixed_tokens * 4 - 1, ["fixed_share"])):
        found = judge_cost(replace(CLEAN, caps=Caps(fixed_share=share)), _cost(CLEAN, limit=limit))
        assert codes == [one.code for one in found]
    for most, codes in ((cost.fixed_tokens, []), (cost.fixed_tokens - 1, ["policy_cap"])):
        found = judge_cost(replace(CLEAN, caps=Caps(policy=most, fixed_share=1.0)), _cost(CLEAN, limit=9_000))
        assert codes == [one.code for one in found]


def test_growth_is_named_rule_by_rule_and_tool_by_tool() -> None:
    """Against the published version each change has its own line, the largest first; a cap turns it into a finding."""
    tools = (tool_of("send", "Send a mail to a person of the list"), tool_of("find", "Find"))
    grown = replace(CLEAN, policy_version="v2", policy=(CLEAN.policy[0], TextItem("money", "No refund.")), tools=tools)
    now, before = _cost(grown, limit=9_000), _cost(CLEAN, limit=9_000)
    changes = dict(growth(now, before))
    assert {"policy/money", "tool/tool-send", "tool/tool-find", "tool/tool-book"} == set(changes)
    assert -13 == changes["policy/money"]
    assert now.fixed_tokens - before.fixed_tokens == sum(changes.values()) + now.framing_tokens - before.framing_tokens
    by = now.fixed_tokens - before.fixed_tokens
    for cap, codes in ((by, []), (by - 1, ["growth_cap"]), (None, [])):
        found = judge_cost(replace(grown, caps=Caps(growth=cap)), now, before)
        assert codes == [one.code for one in found]
        assert not found or "tool/tool-find" in found[0].ids


def test_a_policy_beyond_the_context_is_measured_too() -> None:
    """An overflow is as exact as a plan: the cost stands there and breaks the cap."""
    planner = Planner(ToyBundle(context_tokens=300, longest_token_bytes=None))
    cost = _cost(replace(CLEAN, policy=(TextItem("long", "x" * 900),), constraints=()), planner, None)
    assert (900, 300) == (cost.policy_tokens, cost.input_limit)
    found, costs, _ = lint_bundles(CLEAN, [("toy-bare-char", Planner(ToyBundle("bare", context_tokens=9_000)).plan)])
    assert ([], ["not_measured"]) == (costs, [one.code for one in found]), "a template without tools cannot carry them"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"policyVersion": "a b"}, "$.policyVersion"), ({"policy": [{"id": "a b", "text": "x"}]}, "$.policy[0].id"),
        ({"policy": [{"id": "a", "text": "x\u0000"}]}, "$.policy[0].text"),
        ({"caps": {"fixedShare": 0}}, "$.caps.fixedShare"),
        ({"caps": {"growth": -1}}, "$.caps.growth"), ({"giveWayOrder": [1]}, "$.giveWayOrder"), ({"more": 1}, "$"),
        ({"sections": {"history": {"max": -1}}}, "$.sections.history.max"),
        ({"schemaVersion": "2.0"}, "$.schemaVersion"),
        ({"tools": [{"id": "a", "declaration": {"type": "function"}}]}, "$.tools[0].declaration.function"),
        ({"constraints": [{"constraintId": "", "text": "x"}]}, "$.constraints[0].constraintId"),
    ],
)  # fmt: skip
def test_a_policy_file_is_read_strictly(change: dict[str, Any], path: str) -> None:
    """A wrong field is refused by its path; what was written is read again as it was."""
    assert CLEAN == parse_policy_file(dump_record(CLEAN))
    tree = json.loads(dump_record(CLEAN)) | change
    with pytest.raises(RefusalSignal, match="invalid-input") as caught:
        parse_policy_file(json.dumps(tree).encode())
    assert path == caught.value.detail.partition(": ")[0]


def _lint(tmp_path: Path, policy: PolicyFile, *options: str, published: PolicyFile | None = None) -> Result:
    path = tmp_path / "policy.json"
    path.write_bytes(dump_record(policy))
    if published is not None:
        old = tmp_path / "old.json"
        old.write_bytes(dump_record(published))
        options = (*options, "--published", str(old))
    arguments = ["policy", "lint", str(path), "--bundles", "reference", *options]
    return CliRunner().invoke(group, arguments, standalone_mode=False)


def test_the_command_prints_findings_or_the_cost(tmp_path: Path) -> None:
    """Exit 0 and the cost where all is well; exit 2, one line a finding and one on stderr where it is not."""
    done = _lint(tmp_path, CLEAN, "--window", "9000", published=CLEAN)
    assert (0, "") == (done.return_value, done.stderr)
    assert "of 9,000" in done.stdout
    bad = replace(CLEAN, policy=(*CLEAN.policy, TextItem("cash", "never promise a refund")), caps=Caps(policy=1))
    refused = _lint(tmp_path, bad, "--window", "9000")
    assert 2 == refused.return_value
    assert "context plan rejected: policy_rejected: 2 findings\n" == refused.stderr
    lines = [line.partition(" ")[0] for line in refused.stdout.splitlines()[:2]]
    assert ["duplicate_wording:", "policy_cap"] == lines
    assert "refund" not in refused.stdout


def test_the_command_stores_the_cost_as_json(tmp_path: Path) -> None:
    """The JSON holds cost per bundle, rule and tool with the bundle's digest, and growth by id."""
    longer = replace(CLEAN, policy_version="v2", policy=(*CLEAN.policy, TextItem("new", "Be kind.")))
    done = _lint(tmp_path, longer, "--json", "--window", "9000", published=CLEAN)
    tree = json.loads(done.stdout)
    cost = tree["fixedCost"][0]
    assert ("v2", [], "reference", 9_000) == (
        tree["policyVersion"],
        tree["findings"],
        cost["bundleId"],
        cost["inputLimit"],
    )
    assert Planner("reference").encoder().bundle.manifest.digest == cost["bundleDigest"]
    assert {"tone", "money", "new"} == set(cost["policy"])
    assert {"reference": {"policy/new": cost["policy"]["new"]}} == tree["growth"]


def test_a_file_that_cannot_be_read_is_no_finding(capsys: pytest.CaptureFixture[str]) -> None:
    """An absent file and broken JSON exit 2 with the code of what is wrong."""
    assert 2 == run(["policy", "lint", "absent.json"])
    assert "file_not_readable" in capsys.readouterr().err
