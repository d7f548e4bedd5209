"""Budget data for an app: every figure is the account of a plan or a difference of two (M6, R27, X15)."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner import Planner
from planner.bundles.typical import samples as typical
from planner.cli.main import run as run_command
from planner.gate.budget import Shipped, budget_of, fixed_request, shipped
from planner.gate.budget_code import kotlin, swift, typescript
from planner.gate.budget_rules import growth, judge, over_growth, over_share
from planner.values.budget import BundleBudget
from planner.values.plan import Plan
from planner.values.policy_file import Caps, PolicyFile
from planner.values.request import CurrentRequest, OutputSchema, PlanRequest, TextItem, Tool
from planner.values.turn import Message, Turn
from planner.wire.dump import dump_record, dump_request
from tests.gate.gate_support import candidate

POLICY = (TextItem("role", "You answer for the help desk."), TextItem("safety", "Never open a lift shaft."))


def tool(name: str, **parameters: str) -> Tool:
    """Return a tool with described parameters."""
    properties = {one: {"type": "string", "description": text} for one, text in parameters.items()}
    return Tool(name, {"type": "function", "function": {
        "name": name, "description": f"Look up {name}.",
        "parameters": {"type": "object", "properties": properties, "required": list(parameters)},
    }})  # fmt: skip


TOOLS = (tool("tickets", floor="Number of the floor.", page="Page, from 0."), tool("keys", room="The room."))
SOURCE = PolicyFile("7", POLICY, TOOLS)
ASKING = PlanRequest(
    "any", CurrentRequest("q", text="Who has the key?"), policy=POLICY, tools=TOOLS,
    output_schema=OutputSchema("notice", {"type": "object", "properties": {"floor": {"type": "integer"}}}),
)  # fmt: skip


@pytest.fixture(scope="module")
def there() -> Shipped:
    """The embedded bundle."""
    planner = Planner("reference")
    return shipped(planner.encoder(), planner.plan)


def measured(source: PolicyFile | PlanRequest, there: Shipped, *tiers: str) -> BundleBudget:
    """Return a budget that must be there."""
    found = budget_of(source, there, tiers)
    assert isinstance(found, BundleBudget)
    return found


def account_sums(source: PolicyFile | PlanRequest, there: Shipped) -> BundleBudget:
    """Check the parts of a budget against the exact account of the plan they are of."""
    budget = measured(source, there)
    answer = there.plan(replace(fixed_request(source, there.bundle_id), max_input_tokens=20_000))
    assert isinstance(answer, Plan)
    fixed = budget.fixed
    assert len(answer.ids) == fixed.input_tokens == sum(item.tokens for item in fixed.items) + fixed.framing_tokens
    lines = (fixed.policy_tokens, fixed.tool_tokens, fixed.question_tokens, fixed.framing_tokens)
    assert fixed.input_tokens == sum(lines)
    assert dict(answer.account.items) == {item.id: item.tokens for item in fixed.items if item.tokens}
    for item in fixed.items:
        whole = [part.saved_tokens for part in item.parts if not part.path.endswith("/description")]
        if item.parts and item.rest_tokens is not None:
            assert item.saved_tokens == sum(tokens or 0 for tokens in whole) + item.rest_tokens
    return budget


@pytest.mark.parametrize("source", [SOURCE, ASKING], ids=["policy", "request"])
def test_the_parts_sum_to_the_exact_account(source: PolicyFile | PlanRequest, there: Shipped) -> None:
    """Rules, schema, tools, question and framing are the plan's ids, and no item of the account is missing."""
    paths = {part.path for item in account_sums(source, there).fixed.items for part in item.parts}
    assert {"description", "parameters/floor", "parameters/floor/description", "parameters/room"} <= paths


@pytest.mark.parametrize("name", ["qwen3-0.6b", "llama-3.2", "mistral-v3-spm", "gpt-oss"])
def test_the_parts_sum_on_bundles_that_carry_tools(name: str, bundle_dir: Path) -> None:
    """The same on published templates, which put tools into the system text, a message or a namespace."""
    planner = Planner(bundle_dir / name)
    account_sums(SOURCE, shipped(planner.encoder(), planner.plan))


def test_a_part_saves_what_its_removal_saves(there: Shipped) -> None:
    """A parameter's figure is the difference of two plans, counted here once more by hand."""
    budget = measured(SOURCE, there)
    item = next(one for one in budget.fixed.items if one.id == "tool/tickets")
    less = replace(SOURCE, tools=(tool("tickets", page="Page, from 0."), TOOLS[1]))
    saved = budget.fixed.input_tokens - measured(less, there).fixed.input_tokens
    assert saved == next(part.saved_tokens for part in item.parts if part.path == "parameters/floor")
    assert saved > 0


def test_room_is_what_a_tier_leaves(there: Shipped) -> None:
    """A question of exactly that many tokens fits and one token more does not; a whole number is a tier too."""
    budget = measured(SOURCE, there, "4k", "700", "540", "none")
    small = next(tier for tier in budget.tiers if tier.id == "700")
    assert [4_096, 700, 540, 0] == [tier.input_limit for tier in budget.tiers]
    assert None is budget.tiers[3].room_tokens
    assert (budget.tiers[2].room_tokens or 0) < 0
    assert small.room_tokens is not None
    base = replace(fixed_request(SOURCE, "reference"), max_input_tokens=700, reserved_output_tokens=None)
    words = "9 " * 700
    exact = next(size for size in range(700) if len(there.encoder.bundle.engine.encode(words[:size]).ids)
                 == small.room_tokens)  # fmt: skip
    assert isinstance(there.plan(replace(base, request=CurrentRequest("q", text=words[:exact].strip()))), Plan)
    more = words[: exact + 4].strip()
    assert not isinstance(there.plan(replace(base, request=CurrentRequest("q", text=more))), Plan)


def test_whole_prompts_stay_below_the_proven_sum(there: Shipped, seed: int) -> None:
    """Fixed part, a framing for each turn and the bytes of every text: never less than the prompt has tokens."""
    budget = measured(SOURCE, there)
    around = next(row.proven_tokens for row in budget.framing if row.kind == "userTurn")
    assert around is not None
    assert budget.fixed.proven_tokens is not None
    random_ = random.Random(seed)
    texts = [row["text"] for row in typical()["languages"]]
    for turns in (0, 1, 3, 8):
        said = [[random_.choice(texts)[: random_.randrange(1, 90)].strip() for _ in "ab"] for _ in range(turns)]
        history = tuple(
            Turn(f"t{n}", 10 * n + 1, "completed", (Message("user", f"u{n}", a), Message("assistant", f"a{n}", b)))
            for n, (a, b) in enumerate(said)
        )
        question = random_.choice(texts)
        asked = replace(fixed_request(SOURCE, "reference"), turns=history, max_input_tokens=30_000,
                        request=CurrentRequest("q", text=question))  # fmt: skip
        answer = there.plan(asked)
        assert isinstance(answer, Plan)
        bound = budget.fixed.proven_tokens + turns * around + budget.proven.most_tokens(question)
        bound += sum(budget.proven.most_tokens(text) for pair in said for text in pair)
        assert len(answer.ids) <= bound


def test_every_plan_is_asked_as_the_candidates_app_asks() -> None:
    """Which template a bundle uses may depend on the app's version, so each plan of a budget carries it (R177)."""
    planner = Planner("reference")
    versions: set[str | None] = set()

    def plan(request: PlanRequest) -> Any:
        versions.add(request.app_version)
        return planner.plan(request)

    measured(SOURCE, shipped(planner.encoder(app_version="2.4.0"), plan, "2.4.0"))
    assert {"2.4.0"} == versions


def test_the_share_rule_is_exact(there: Shipped) -> None:
    """A tier of which the fixed part takes exactly the share passes, one token less of it blocks."""
    budget = measured(SOURCE, there)
    tokens = budget.fixed.fixed_tokens
    exact = replace(budget, tiers=(replace(budget.tiers[0], input_limit=tokens * 4),))
    over = replace(budget, tiers=(replace(budget.tiers[0], input_limit=tokens * 4 - 1),))
    assert [] == over_share(exact, 0.25)
    assert [("fixed_share_over_cap", "reference/4k")] == [(one.code, one.id) for one in over_share(over, 0.25)]
    assert ["policy_over_cap"] == [one.code for one in judge(budget, Caps(policy=tokens - 1))]
    assert [] == judge(budget, Caps(policy=tokens))


def exported(budget: BundleBudget) -> dict[str, Any]:
    """Return an entry of an exported budget."""
    from planner.cli.opening import as_tree

    tree: dict[str, Any] = json.loads(json.dumps(as_tree(budget)))
    return tree


def test_growth_names_the_tool_and_the_parameter(there: Shipped) -> None:
    """What grew, what is new, what is gone; the cap is over the whole fixed part, and shrinking blocks nothing."""
    before = measured(SOURCE, there)
    longer = tool("tickets", floor="Number of the floor, the ground floor being 0.", page="Page, from 0.")
    now = measured(replace(SOURCE, tools=(longer, tool("plans", wing="The wing."))), there)
    found = dict(growth(now, exported(before)))
    assert found["tool/tickets/parameters/floor"] > 0 > found["tool/keys"]
    assert found["tool/plans"] > 0
    assert not {"tool/tickets/parameters/page", "policy/role"} & found.keys()
    grown = now.fixed.fixed_tokens - before.fixed.fixed_tokens
    assert grown == sum(by for name, by in found.items() if name.count("/") <= 1)
    assert [] == over_growth(now, exported(before), grown)
    named = [one.id.partition(" ")[0] for one in over_growth(now, exported(before), grown - 1)]
    assert {"reference/tool/tickets", "reference/tool/plans"} <= set(named)
    assert [] == over_growth(before, exported(now), 0)


def test_the_command_writes_blocks_and_compares(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """JSON and three sources with the digest; growth beyond the candidate's cap is exit 2 and one line."""
    (tmp_path / "policy.json").write_bytes(dump_record(SOURCE))
    (tmp_path / "asking.json").write_bytes(dump_request(replace(ASKING, model_bundle_id="reference")))
    (tmp_path / "candidate.json").write_bytes(dump_record(candidate(caps=Caps(growth=0))))
    common = ["gate", "export-budget", "--candidate", str(tmp_path / "candidate.json"), "--bundles", "reference"]
    assert 0 == run_command([*common, "--policy", str(tmp_path / "policy.json"), "--out", str(tmp_path / "out")])
    tree = json.loads((tmp_path / "out" / "budget.json").read_bytes())
    digest = Planner("reference").encoder().bundle.manifest.digest
    assert [digest] == [one["bundleDigest"] for one in tree["bundles"]]
    for name in ("promptBudget.ts", "PromptBudget.kt", "PromptBudget.swift"):
        assert digest in (tmp_path / "out" / name).read_text()
    capfd.readouterr()
    again = [*common, "--request", str(tmp_path / "asking.json"), "--against", str(tmp_path / "out" / "budget.json")]
    code = run_command([*again, "--json"])
    out, err = capfd.readouterr()
    assert (2, True) == (code, err.startswith("context plan rejected: release_blocked: growth_over_cap: reference/"))
    assert json.loads(out)["growth"]["reference"]["schema/notice"] > 0
    (tmp_path / "odd.json").write_text('{"bundles": [{"bundleId": "reference"}]}')
    assert 2 == run_command([*again[:-1], str(tmp_path / "odd.json")])
    assert 2 == run_command(common)


def test_node_reads_the_typescript(there: Shipped, tmp_path: Path) -> None:
    """The constants and the bound as JavaScript computes it, with the types taken out here."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on this machine")
    budget = replace(measured(SOURCE, there), bundle_id='odd "$name`')
    nfc = replace(budget, bundle_id="nfc", proven=replace(budget.proven, normaliser="NFC", prefix_tokens=1))
    none = replace(budget, bundle_id="none", proven=replace(budget.proven, proven=False, raw_factor=None))
    rules = replace(budget, bundle_id="rules", proven=replace(budget.proven, normaliser="charsmap", raw_factor=11))
    source = typescript((budget, nfc, none, rules), "7")
    plain = re.sub(r"export interface .*?\n}\n", "", source, flags=re.DOTALL)
    plain = plain.replace("POLICY_VERSION: string", "POLICY_VERSION")
    plain = plain.replace("BUDGETS: { readonly [bundleId: string]: PromptBudget }", "BUDGETS")
    plain = plain.replace("(budget: PromptBudget, text: string): number | null", "(budget, text)")
    plain = plain.replace("(shown: string): number", "(shown)")
    texts = ["", "abc", "Z\u0301", "\u0f93\U0001d161", "电梯"]
    asked = f"console.log(JSON.stringify([BUDGETS, {json.dumps(texts)}.map(t => [...Object.values(BUDGETS)]"
    (tmp_path / "run.mjs").write_text(plain + asked + ".map(b => mostTokens(b, t)))]));")
    done = subprocess.run([node, str(tmp_path / "run.mjs")], capture_output=True, check=False)
    assert 0 == done.returncode, done.stderr.decode()
    budgets, bounds = json.loads(done.stdout)
    assert [budget.bundle_id, "nfc", "none", "rules"] == list(budgets)
    assert budget.fixed.fixed_tokens == budgets["nfc"]["fixedTokens"]
    assert budget.bundle_digest == budgets["nfc"]["bundleDigest"]
    for text, row in zip(texts, bounds, strict=True):
        assert [
            budget.proven.most_tokens(text),
            nfc.proven.most_tokens(text),
            None,
            rules.proven.most_tokens(text),
        ] == row


def test_names_stay_strings_in_every_language(there: Shipped) -> None:
    """A quote, a dollar, a backslash, an interpolation and a line end in a tool's id end no string."""
    odd = 'a"b$c\\(d)\\fe\n${f}'
    made = measured(SOURCE, there)
    item = replace(made.fixed.items[-2], id=f"tool/{odd}", parts=())
    budget = replace(made, fixed=replace(made.fixed, items=(item,)))
    assert '"tool/a\\u0022b\\u0024c\\u005c(d)\\u005cfe\\u000a\\u0024{f}"' in kotlin((budget,), "7")
    assert '"tool/a\\u{22}b$c\\u{5c}(d)\\u{5c}fe\\u{a}${f}"' in swift((budget,), "7")
    assert json.dumps(f"tool/{odd}") in typescript((budget,), "7")
