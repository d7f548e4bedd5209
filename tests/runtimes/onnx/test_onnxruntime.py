"""Plans on a real onnxruntime-genai: which ids its model is given, where it stops, and where its tokenizer differs.

Stated for onnxruntime-genai 0.18.0. The model is a toy without weights that keeps the ids it was given.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.open import open_bundle
from planner.planner import Planner
from planner.runtimes.llama_cpp import expected_cached
from planner.values.observation import Reported
from planner.values.plan import Plan, Refusal
from planner.values.runtime_rows import RUNTIMES
from tests.bundles.gguf.texts import mixed_texts
from tests.support import conversations
from tests.support.deployed import Deployed
from tests.support.growing_plans import growing_plans
from tests.support.onnx_model import NEEDS_ONNX, write_model
from tests.support.reference import ReferenceBundle

pytestmark = NEEDS_ONNX
ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "model_bundles" / "reference"
VERSION, CONTEXT = "0.18.0", 4_096
FULL = os.environ.get("PLANNER_FULL") == "1"
PLANS, TEXTS, CONVERSATIONS = (300, 800, 120) if FULL else (100, 300, 36)


@dataclass
class Toy:
    """The model, and generators of it."""

    model: Any

    def generator(self, ids: Sequence[int], most: int) -> Any:
        """Return a generator that was given ids; `most` is its max_length. Raises RuntimeError."""
        import numpy as np
        import onnxruntime_genai as og

        params = og.GeneratorParams(self.model)
        params.set_search_options(max_length=most, do_sample=False)
        made = og.Generator(self.model, params)
        made.append_tokens(np.array(ids, dtype=np.int32))
        return made

    @staticmethod
    def given(generator: Any) -> list[int]:
        """Return the ids the graph has seen, as it kept them."""
        return [int(one) for one in generator.get_output("present.0.key").ravel()]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """The toy with the tokenizer of the `reference` bundle."""
    import onnxruntime_genai as og

    folder = tmp_path_factory.mktemp("onnx") / "model"
    write_model(folder, REFERENCE, vocabulary=4_096, context=CONTEXT, begin=0, end=4_095)
    assert 12_000 > (folder / "model.onnx").stat().st_size
    return Toy(og.Model(str(folder)))


@pytest.fixture(scope="module")
def planning() -> Planner:
    """A planner of the reference bundle as this runtime runs it."""
    return Planner(Deployed(open_bundle("reference"), "onnx-genai", CONTEXT))


def test_the_wheel_is_the_one_that_is_spoken_of() -> None:
    """The pinned version, and the one whose rules the runtime's row states."""
    assert VERSION == importlib.metadata.version("onnxruntime-genai")
    assert (VERSION,) == RUNTIMES["onnx-genai"].versions


def test_R43_plan_returns_exact_token_ids(toy: Toy, planning: Planner, seed: int) -> None:
    """Read back from the graph's own cache, for plans of growing and of cut conversations."""
    plans = growing_plans(planning, seed, PLANS, CONTEXT)
    for plan in plans:
        generator = toy.generator(plan.ids, CONTEXT)
        generator.generate_next_token()
        assert list(plan.ids) == toy.given(generator)
        assert len(plan.ids) + 1 == generator.token_count()
        assert [*plan.ids, (plan.ids[-1] + 1) % 4_096] == list(generator.get_sequence(0))
    assert PLANS // 20 < sum(bool(plan.removed) for plan in plans)


def test_a_planted_id_is_found(toy: Toy, planning: Planner) -> None:
    """The comparison can fail: one id more at the front, as an engine does that adds its own begin token."""
    plan = planning.plan(messages=[{"role": "user", "content": "hello"}], max_input_tokens=CONTEXT)
    assert isinstance(plan, Plan)
    generator = toy.generator([plan.ids[0], *plan.ids], CONTEXT)
    generator.generate_next_token()
    assert list(plan.ids) != toy.given(generator)
    assert len(plan.ids) + 1 != generator.token_count()


def test_a_kept_generator_goes_on_from_the_common_prefix(toy: Toy, planning: Planner, seed: int) -> None:
    """Rewound to what two plans share and given the rest, it holds the second plan and nothing of the first."""
    plans = growing_plans(planning, seed, PLANS // 2, CONTEXT)
    generator, held, saved = toy.generator(plans[0].ids, CONTEXT), list(plans[0].ids), 0
    generator.generate_next_token()
    for plan in plans[1:]:
        # The token made last was never given to the model, and all it was given cannot be the target of a rewind.
        keep = min(expected_cached(held, [0], plan.ids), len(held) - 1)
        generator.rewind_to(keep)
        generator.append_tokens(_int32(plan.ids[keep:]))
        generator.generate_next_token()
        assert list(plan.ids) == toy.given(generator)
        held, saved = list(plan.ids), saved + keep
    assert saved > sum(len(plan.ids) for plan in plans) // 4


def test_a_rewind_to_all_that_was_given_raises(toy: Toy) -> None:
    """So one token of a prompt that only grew is given once more."""
    generator = toy.generator([5, 6, 7], CONTEXT)
    generator.generate_next_token()
    with pytest.raises(RuntimeError, match="rewind is greater than the current length"):
        generator.rewind_to(3)


def test_three_calls_find_what_its_count_counts(toy: Toy, planning: Planner) -> None:
    """`token_count` after an answer is that of the session: prompt and answer."""

    def call(plan: Plan) -> Reported:
        generator = toy.generator(plan.ids, CONTEXT)
        for _ in range(4):
            generator.generate_next_token()
        return Reported(generator.token_count(), output_tokens=4)

    assert RUNTIMES["onnx-genai"].reported_meaning == planning.learn_meaning(call).meaning == "session_with_output"


def _int32(ids: Sequence[int]) -> Any:
    import numpy as np

    return np.array(ids, dtype=np.int32)


def test_at_the_edge_of_the_window_we_and_the_runtime_agree(toy: Toy) -> None:
    """One less than its max_length is taken and gives one token; as many are refused by us and at the first token."""
    window = 200
    planner = Planner(Deployed(open_bundle("reference"), "onnx-genai", window))
    accepted: dict[int, bool] = {}
    for words in range(window - 30, window + 5):
        answer = planner.plan(
            messages=[{"role": "user", "content": "the " * words}], reserved_output_tokens=0, safety_margin_tokens=0
        )
        size = len(answer.ids) if isinstance(answer, Plan) else window + _missing(answer) - 1
        accepted[size] = isinstance(answer, Plan)
        if isinstance(answer, Plan):
            generator = toy.generator(answer.ids, window)
            for _ in range(window - size):
                assert not generator.is_done()
                generator.generate_next_token()
            assert (True, window) == (generator.is_done(), generator.token_count())
        elif size == window:
            generator = toy.generator([5] * size, window)
            with pytest.raises(RuntimeError, match="already at max_length"):
                generator.generate_next_token()
        else:
            with pytest.raises(RuntimeError, match="exceeds max length"):
                toy.generator([5] * size, window)
    assert {window - 1: True, window: False, window + 1: False}.items() <= accepted.items()


def _missing(answer: Refusal) -> int:
    assert "context_policy_overflow" == answer.outcome
    return answer.tokens_missing


def test_a_window_larger_than_the_models_is_refused(toy: Toy) -> None:
    """Before any id is given."""
    with pytest.raises(RuntimeError, match="cannot be greater than model context_length"):
        toy.generator([5], CONTEXT + 1)


def test_it_takes_an_id_that_no_vocabulary_has(toy: Toy) -> None:
    """It compares nothing with its vocabulary; that ids belong to the model is ours to know (the bundle's digest)."""
    generator = toy.generator([4_096 + 7], CONTEXT)
    generator.generate_next_token()
    assert [4_096 + 7] == toy.given(generator)


TOKENIZERS = {"reference": (None, 4_096), "qwen3": ("qwen3-0.6b", 151_936), "llama-3.1": ("llama-3.1", 128_256)}


@pytest.fixture(scope="module", params=TOKENIZERS)
def sides(request: pytest.FixtureRequest, bundle_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Name, our bundle and the runtime's tokenizer of the same files."""
    import onnxruntime_genai as og

    name, vocabulary = TOKENIZERS[request.param]
    folder = REFERENCE if name is None else bundle_dir / name
    made = write_model(
        tmp_path_factory.mktemp("tokenizer") / "m", folder, vocabulary=vocabulary, context=CONTEXT, begin=0, end=1
    )
    return request.param, open_bundle(folder), og.Tokenizer(og.Model(str(made)))


def _read_otherwise(name: str, text: str) -> str | None:
    """Name why the runtime's tokenizer gives other ids, None where it must give ours."""
    if "\x00" in text:
        return "a text ends for it at the first NUL"
    if name == "qwen3" and unicodedata.normalize("NFC", text) != text:
        return "it leaves out the normal form that the tokenizer file asks for"
    return None


def test_its_tokenizer_reads_as_ours_but_for_named_causes(sides: Any, seed: int) -> None:
    """Ids of mixed texts, control strings parsed; each text that differs has a cause, and each cause is seen."""
    name, bundle, tokenizer = sides
    wrong, seen = [], set()
    for number, text in enumerate(mixed_texts(seed, TEXTS)):
        if list(tokenizer.encode(text)) != list(bundle.engine.encode_parsed(text)):
            cause = _read_otherwise(name, text)
            seen.add(cause)
            if cause is None:
                wrong.append(number)
    assert [] == wrong
    assert {"reference": 1, "qwen3": 2, "llama-3.1": 1}[name] == len(seen)


def _written_otherwise(name: str, messages: Sequence[Any], tools: Sequence[Any]) -> str | None:
    """Name why the runtime's template engine writes another text."""
    calls = [message for message in messages if message.get("tool_calls")]
    if name == "qwen3" and any(message.get("content") is None for message in calls):
        return "it writes None for a content that is null"
    if name == "llama-3.1" and tools:
        return "it takes the function out of each tool declaration"
    return None


def test_its_template_engine_writes_our_prompt_but_for_named_causes(sides: Any, seed: int) -> None:
    """The text of whole conversations, and its ids of that text; what it writes otherwise has a cause."""
    name, bundle, tokenizer = sides
    planner, wrong, equal = Planner(bundle), [], 0
    for item in conversations.generate(CONVERSATIONS, seed):
        answer = planner.plan(messages=item.messages, tools=item.tools or None, max_input_tokens=16_000)
        if not isinstance(answer, Plan):
            continue
        shown = tokenizer.apply_chat_template(
            json.dumps(list(item.messages), ensure_ascii=False), template_str=bundle.template_source,
            tools=json.dumps(list(item.tools), ensure_ascii=False) if item.tools else None, add_generation_prompt=True,
        )  # fmt: skip
        cause = _written_otherwise(name, item.messages, item.tools)
        if (shown == answer.prompt) is (cause is not None):
            wrong.append((item.id, cause))
        text = answer.prompt or ""
        if list(tokenizer.encode(text)) != list(answer.ids) and _read_otherwise(name, text) is None:
            wrong.append((item.id, "ids"))
        equal += cause is None
    assert [] == wrong
    assert CONVERSATIONS // 4 < equal


def test_old_thoughts_stay_where_the_template_takes_them_out(sides: Any, bundle_dir: Path) -> None:
    """An answer that holds its thoughts as text: Qwen3's template cuts them off, this engine's render keeps them."""
    name, bundle, tokenizer = sides
    messages = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\ntwo"},
                {"role": "user", "content": "three"}]  # fmt: skip
    shown = tokenizer.apply_chat_template(
        json.dumps(messages), template_str=bundle.template_source, add_generation_prompt=True
    )
    published = ReferenceBundle(REFERENCE if name == "reference" else bundle_dir / TOKENIZERS[name][0])
    assert (True, name != "qwen3") == ("hm" in shown, "hm" in published.render(messages))


def test_it_never_adds_a_begin_token(sides: Any) -> None:
    """Whatever the configuration says: the template's is the only one, so D04 cannot happen by its tokenizer."""
    name, bundle, tokenizer = sides
    answer = Planner(bundle).plan(messages=[{"role": "user", "content": "hello, how are you?"}], max_input_tokens=512,
                                  reserved_output_tokens=64)  # fmt: skip
    assert isinstance(answer, Plan)
    assert list(answer.ids) == list(tokenizer.encode(answer.prompt))
    begin = bundle.variables.get("bos_token")
    if name != "qwen3" and begin is not None:
        index = bundle.engine.encode_parsed(begin)
        assert 1 == list(answer.ids).count(index[0])
