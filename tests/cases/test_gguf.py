"""D04 and D20 on GGUF files of the same families: one begin token whoever writes it, a count that is its bundle's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from planner.bundles.open import open_bundle
from planner.planner import Planner
from planner.values.digest import final_input_digest
from planner.values.reasons import PlannerFault
from tests.cases.common import QWEN, accepted, case, check, expect_kept, on, planner_of, removed_turns, request_of
from tests.support.gguf_families import FAMILIES, written
from tests.support.gguf_writer import llama_model, tokenizer_keys

Opened = Callable[[str], Planner]


@pytest.fixture(scope="module")
def on_file(shared_dir: Path, bundle_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """A planner of a family's GGUF file, written and opened once."""
    known: dict[str, Planner] = {}

    def by_name(name: str) -> Planner:
        if name not in known:
            family = next(one for one in FAMILIES if one.name == name)
            path = tmp_path_factory.mktemp("cases") / f"{name}.gguf"
            known[name] = Planner(open_bundle(written(family, shared_dir, bundle_dir, path, 4_096)))
        return known[name]

    return by_name


def test_D04_the_begin_token_stands_exactly_once_on_gguf(
    shared_dir: Path, bundle_dir: Path, on_file: Opened, tmp_path: Path
) -> None:
    """Llama 3.1 as one file: its template writes the token and the file asks for it; a template that does not, too."""
    one = case(shared_dir, "D04")
    planner = on_file("llama-3.1")
    request = request_of(one.input, one.budget, planner.bundle_id)
    answer = expect_kept(planner.plan(request), one.expected["keep"], request)
    bos = 128_000
    check("D04", "the plan's ids start with exactly one", bos == answer.ids[0] and 1 == answer.ids.count(bos))
    check("D04", "total in the ledger equals len(ids)", len(answer.ids) == answer.account.input_tokens)
    spelled = replace(request, request=replace(request.request, text="<|begin_of_text|>hello, how are you?"))
    forged = accepted(planner.plan(spelled))
    check("D04", "a text whose first characters spell", 1 == forged.ids.count(bos) and 1 == forged.receipt.neutralised)
    bare = planner.encoder().bundle.template_source.replace("bos_token", "''")
    path = tmp_path / "bare.gguf"
    path.write_bytes(llama_model(tokenizer_keys(bundle_dir / "llama-3.1", "llama-bpe", template=bare, add_bos=True)))
    other = Planner(open_bundle(path))
    added = accepted(other.plan(replace(request, model_bundle_id=other.bundle_id)))
    check("D04", "for a bundle whose template prints no marker", added.ids == answer.ids)


def test_D04a_gemma_has_one_begin_token_on_gguf(shared_dir: Path, on_file: Opened) -> None:
    """Gemma 4's published vocabulary and template: exactly one id 2, at the front."""
    one = case(shared_dir, "D04")
    planner = on_file("gemma-4")
    answer = accepted(planner.plan(request_of(one.input, one.budget, planner.bundle_id)))
    check("D04", "exactly one id 2 at the front", 2 == answer.ids[0] and 1 == answer.ids.count(2))


def test_D20_a_count_belongs_to_its_bundle_on_gguf(shared_dir: Path, bundle_dir: Path, on_file: Opened) -> None:
    """The model file is switched and switched back; ids are those of the publisher's folder, digests are not."""
    one = case(shared_dir, "D20")
    qwen, llama, folder = on_file("qwen3"), on_file("llama-3.1"), planner_of(QWEN)
    request = request_of(one.input, one.budget, qwen.bundle_id)
    first = accepted(qwen.plan(request))
    assert accepted(folder.plan(request_of(one.input, one.budget))).ids == first.ids
    own, other = (one.encoder().bundle.manifest.digest for one in (qwen, llama))
    check("D20", "step 3: rejected as belonging to another",
          own != other and final_input_digest(other, first.ids) != first.receipt.final_input_digest
          and own != folder.encoder().bundle.manifest.digest)  # fmt: skip
    second = accepted(llama.plan(replace(request, model_bundle_id=llama.bundle_id)))
    published = on(bundle_dir, "llama-3.1")
    check("D20", "step 4: everything is encoded anew",
          (llama.bundle_id, other) == (second.receipt.model_bundle_id, second.receipt.bundle_digest)
          and accepted(published.plan(request_of(one.input, one.budget, published.bundle_id))).ids == second.ids
          and first.ids != second.ids)  # fmt: skip
    back = accepted(qwen.plan(request))
    check("D20", "step 5: same ids and same digest", (first.ids, first.receipt) == (back.ids, back.receipt))
    with pytest.raises(PlannerFault) as fault:
        qwen.plan(replace(request, model_bundle_id="qwen3-0.7b"))
    check("D20", "an unknown modelBundleId", "bundle_not_found" == fault.value.code)


def test_D20a_the_smaller_count_keeps_more_on_gguf(shared_dir: Path, on_file: Opened) -> None:
    """One request, a limit between the sizes of two files: one keeps five turns, the other drops T1."""
    one = next(variant for variant in case(shared_dir, "D20").variants if variant["id"] == "D20a")
    request = request_of(case(shared_dir, "D20").input, one["budget"])
    gemma, qwen = on_file("gemma-4"), on_file("qwen3")
    small, large = (accepted(each.plan(replace(request, model_bundle_id=each.bundle_id))) for each in (gemma, qwen))
    check("D20", "the bundle with the smaller count", {} == removed_turns(small)
          and {"turn/T1": "over_budget"} == removed_turns(large) and 669 == len(large.ids))  # fmt: skip
