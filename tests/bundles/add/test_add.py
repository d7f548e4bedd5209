"""`bundle add`: what stands in the user's folder afterwards, what is refused, and that a refusal leaves nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from planner.bundles.activated import dump_state
from planner.bundles.candidate import open_candidate
from planner.bundles.manifest import dump_manifest, parse_manifest
from planner.bundles.open import list_bundles, open_bundle
from planner.bundles.recheck import recheck
from planner.planner import Planner
from planner.values.activation import TemplateState, TemplateVersion
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault, RefusalSignal
from tests.bundles.add.conftest import REFERENCE, ROOT, Add, left_over, plain_copy
from tests.bundles.litertlm.small import TEMPLATE, with_tokenizer_json
from tests.support.litertlm_writer import metadata

CHAT = [{"role": "user", "content": "How many moons has Mars?"}]


def test_an_added_folder_is_the_same_bundle_by_id_after_the_model_was_moved(add: Add, own: Path, model: Path) -> None:
    """Digest, ids and plan are those of the folder named by its path; the copies do not need it."""
    by_path = open_bundle(model)
    expected = Planner(by_path).plan(messages=CHAT)
    assert isinstance(expected, Plan)
    assert add(model, id="mine").placed == "new"
    digest = by_path.manifest.digest
    shutil.rmtree(model)
    by_id = open_bundle("mine", user_folder=own)
    found = Planner(by_id).plan(messages=CHAT)
    assert isinstance(found, Plan)
    assert (digest, list(expected.ids)) == (by_id.manifest.digest, list(found.ids))
    assert [row.result for row in recheck("mine", own)] == ["note"]


def test_the_manifest_names_every_file_by_size_and_digest_and_reads_back(add: Add, own: Path, model: Path) -> None:
    """bundle.json is canonical: parsed and written again it has the same bytes."""
    added = add(model, id="mine", notes=("from the shelf",), context=4_096)
    data = (own / "mine" / "bundle.json").read_bytes()
    parsed = parse_manifest(data)
    assert data == dump_manifest(parsed)
    assert added.manifest == parsed.manifest
    assert {"bundle.json", *(entry.path for entry in parsed.manifest.files)} == set(left_over(own / "mine"))
    assert (4_096, "from the shelf") == (parsed.manifest.context_tokens, parsed.manifest.warnings[-1])


def test_a_gguf_file_is_copied_by_its_header_alone(add: Add, own: Path, gguf: Path) -> None:
    """Weights stay; the copy is the same bundle and is not said to be cut short."""
    expected = open_bundle(gguf).manifest
    found = add(gguf).manifest
    assert (expected.digest, "small") == (found.digest, found.id)
    assert (own / "small" / "small.gguf").stat().st_size == found.files[0].size_bytes < gguf.stat().st_size
    assert not any("weights" in warning for warning in found.warnings)
    assert isinstance(Planner(open_bundle("small", user_folder=own)).plan(messages=CHAT), Plan)


def test_a_litertlm_file_is_copied_without_its_weights(add: Add, own: Path, tmp_path: Path) -> None:
    """Header, metadata and tokenizer at their places, zeros between them: the same bundle."""
    path = tmp_path / "model.litertlm"
    path.write_bytes(with_tokenizer_json(metadata(template=TEMPLATE, context=2_048), weights=bytes(range(1, 97)) * 999))
    expected = open_bundle(path).manifest
    found = add(path).manifest
    copy = (own / "model" / "model.litertlm").read_bytes()
    assert (expected.digest, 2_048) == (found.digest, found.context_tokens)
    assert bytes(range(1, 97)) in path.read_bytes()
    assert bytes(range(1, 97)) not in copy
    bundle = open_bundle("model", user_folder=own)
    assert isinstance(Planner(bundle).plan(messages=CHAT), Plan)
    assert ["passed"] == [row.result for row in recheck("model", own)]


def test_a_file_that_holds_everything_is_there_already_the_second_time(
    add: Add, own: Path, gguf: Path, tmp_path: Path
) -> None:
    """Its entry is over what is read of it, and so is the comparison; a damaged copy is none."""
    path = tmp_path / "model.litertlm"
    path.write_bytes(with_tokenizer_json(metadata(template=TEMPLATE)))
    for model in (path, gguf):
        assert ["new", "same"] == [add(model, id=model.stem).placed for _ in range(2)]
        copy = own / model.stem / model.name
        copy.write_bytes(copy.read_bytes().replace(b"user", b"usar"))
        with pytest.raises(PlannerFault, match="bundle_mismatch"):
            add(model, id=model.stem)


def test_a_folder_with_one_gguf_file_is_added_by_it(add: Add, gguf: Path, tmp_path: Path) -> None:
    """What stands beside it is named by its kind."""
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copyfile(gguf, folder / "small.gguf")
    (folder / "notes.bin").write_bytes(b"x")
    assert "pickles are never opened: notes.bin" in add(folder).warnings


def test_what_is_not_read_is_named_by_its_kind_and_not_copied(add: Add, own: Path, model: Path) -> None:
    """Weights, pickles, code and the rest, one line each."""
    for name in ("model.safetensors", "pytorch_model.bin", "modeling_x.py", "README.md"):
        (model / name).write_bytes(b"x")
    warnings = add(model).warnings
    assert (
        "weights are not read: model.safetensors",
        "pickles are never opened: pytorch_model.bin",
        "code is never run: modeling_x.py",
        "ignored files: README.md",
    ) == warnings[:4]
    assert {"bundle.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"} == set(
        left_over(own / "model")
    )


def test_the_same_content_is_there_already_and_other_content_is_refused(add: Add, own: Path, model: Path) -> None:
    """An id never changes its meaning unless it is asked for."""
    assert ["new", "same"] == [add(model, id="mine").placed for _ in range(2)]
    before = (own / "mine" / "bundle.json").read_bytes()
    (model / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}", encoding="utf-8")
    for bundle_id in ("mine", "MINE"):
        with pytest.raises(PlannerFault, match="bundle_exists"):
            add(model, id=bundle_id)
    assert (before, ["mine"]) == ((own / "mine" / "bundle.json").read_bytes(), left_over(own))
    with pytest.raises(PlannerFault, match="bundle_exists"):
        add(model, id="MINE", replace=True)
    assert add(model, id="mine", replace=True).placed == "replaced"
    assert (before != (own / "mine" / "bundle.json").read_bytes(), ["mine"]) == (True, left_over(own))


def test_templates_activated_for_a_bundle_that_is_replaced_stay_a_record_and_count_no_more(
    add: Add, own: Path, model: Path
) -> None:
    """They were approved for the bundle that leaves; each replacement keeps the records before it."""
    add(model, id="mine")
    for number in (1, 2):
        (own / "mine" / "activation.json").write_text(f'{{"record": {number}}}', encoding="utf-8")
        add(model, id="mine", replace=True, context=1_000 + number)
        kept = sorted(path.read_text(encoding="utf-8") for path in (own / "mine").glob("activation-*.json"))
        assert [f'{{"record": {one}}}' for one in range(1, number + 1)] == kept
        assert not (own / "mine" / "activation.json").exists()


def test_the_same_bundle_put_there_again_keeps_its_activated_template(add: Add, own: Path, model: Path) -> None:
    """It was approved for this very bundle: a repair of its files is no reason to plan with another template."""
    added = add(model, id="mine")
    text = (model / "chat_template.jinja").read_text("utf-8") + "{# newer #}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    _, full = open_candidate("mine", TemplateVersion(digest, ""), text, user_folder=own, cache_dir=None)
    (own / "mine" / "activated").mkdir()
    (own / "mine" / "activated" / f"{digest}.jinja").write_text(text, encoding="utf-8")
    state = dump_state(TemplateState("mine", added.manifest.digest, full))
    (own / "mine" / "activation.json").write_bytes(state)
    (own / "mine" / "tokenizer.json").write_bytes(b"{}")
    assert "replaced" == add(model, id="mine", replace=True, notes=("repaired",)).placed
    opened = open_bundle("mine", user_folder=own)
    assert (full.bundle_digest, None) == (opened.manifest.digest, opened.manifest.template_fallback)
    assert state == (own / "mine" / "activation.json").read_bytes()
    assert opened.engine.vocab_size > 1


def test_another_context_under_the_same_id_is_other_content(add: Add, model: Path) -> None:
    """No id of a token changes by it, but plans do."""
    add(model, id="mine", context=4_096)
    with pytest.raises(PlannerFault, match="bundle_exists"):
        add(model, id="mine", context=2_048)


def test_of_several_at_once_one_adds_and_the_others_find_it_there(add: Add, own: Path, model: Path) -> None:
    """Whoever comes second compares with what the first one placed."""
    with ThreadPoolExecutor(4) as pool:
        results = [one.placed for one in pool.map(lambda _: add(model, id="mine"), range(4))]
    assert ["new", "same", "same", "same"] == sorted(results)
    assert ["mine"] == left_over(own)


def test_a_damaged_copy_is_not_said_to_be_there(add: Add, own: Path, model: Path) -> None:
    """Its files are compared before the answer is given."""
    add(model, id="mine")
    path = own / "mine" / "tokenizer.json"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(PlannerFault, match="bundle_mismatch"):
        add(model, id="mine")


@pytest.mark.parametrize("name", ["pad_token", "chat_template"])
def test_half_a_character_in_a_configuration_is_refused(add: Add, own: Path, model: Path, name: str) -> None:
    """JSON can spell a lone surrogate; neither a tokenizer nor a file can hold one."""
    path = model / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {name: "\ud800"}), encoding="utf-8")
    with pytest.raises(PlannerFault, match=r"bundle_unsafe: .* holds half of"):
        add(model)
    assert left_over(own) == []


def test_half_a_character_in_a_manifest_is_refused(add: Add, own: Path, model: Path) -> None:
    """In one of the texts that a person may write there."""
    add(model, id="mine")
    path = own / "mine" / "bundle.json"
    tree = json.loads(path.read_text("utf-8"))
    tree["controlTokens"][0]["text"] = "\udc00"
    path.write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(PlannerFault, match=r"manifest_invalid: .*half of"):
        _ = open_bundle("mine", user_folder=own).engine


def test_a_folder_of_a_hub_cache_is_named_by_its_model(add: Add, tmp_path: Path) -> None:
    """Its own name is a commit."""
    folder = plain_copy(tmp_path / "models--owner--Some-Model" / "snapshots" / ("1" * 40))
    assert "Some-Model" == add(folder).manifest.id


def test_a_shipped_id_cannot_be_taken(add: Add, own: Path) -> None:
    """A shipped bundle answers to it first, whatever stands in the user's folder."""
    with pytest.raises(PlannerFault, match="bundle_exists: a shipped"):
        add(plain_copy(own.parent / "reference"))
    with pytest.raises(PlannerFault, match="bundle_exists: the folder has a manifest"):
        add(REFERENCE, id="mine")
    assert left_over(own) == []


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"id": "../x"}, "--id"),
        ({"id": ""}, "--id"),
        ({"context": 1 << 30}, "--context"),
        *(({"id": name}, "--id") for name in ("con", "NUL", "aux.v1", "Com1", "lpt9.gguf", "mine.")),
    ],
)
def test_options_that_cannot_be_are_refused(
    add: Add, own: Path, gguf: Path, fields: dict[str, object], detail: str
) -> None:
    """An id is a plain name that every system takes; a context is at most what the files state (X4, R46)."""
    with pytest.raises(RefusalSignal, match=detail):
        add(gguf, **fields)
    assert left_over(own) == []


@pytest.mark.parametrize("name", ["config-only", "lfs-pointer", "spm-only-junk-name", "wrong-class-grows-vocab"])
def test_a_broken_folder_leaves_nothing(add: Add, own: Path, shared_dir: Path, name: str) -> None:
    """The code is that of opening the folder by its path."""
    folder = shared_dir / "bundles_negative" / name
    with pytest.raises(PlannerFault) as opened:
        open_bundle(folder)
    with pytest.raises(PlannerFault) as caught:
        add(folder)
    assert (opened.value.code, []) == (caught.value.code, left_over(own))


def test_a_template_that_is_given_replaces_the_models_own(add: Add, own: Path, model: Path, gguf: Path) -> None:
    """In a folder and beside a GGUF file; the model's own is not kept."""
    text = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{{ '[assistant]' }}"
    template = own.parent / "other.jinja"
    template.parent.mkdir(exist_ok=True)
    template.write_text(text, encoding="utf-8")
    for path in (model, gguf):
        name = add(path, template=template).manifest.id
        assert text == open_bundle(name, user_folder=own).template_source
        assert [row.result for row in recheck(name, own)] == ["passed"]


def test_a_model_changed_after_it_was_added_is_told_and_changes_no_plan(add: Add, own: Path, model: Path) -> None:
    """`bundle check` compares the copies with what they were copied from."""
    added = add(model, id="mine")
    assert [row.result for row in recheck("mine", own)] == ["passed"]
    path = model / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"x": 1}), encoding="utf-8")
    (row,) = recheck("mine", own)
    assert ("failed", "bundle_mismatch") == (row.result, row.code)
    assert added.manifest.digest == open_bundle("mine", user_folder=own).manifest.digest


@pytest.mark.parametrize("replacing", [False, True])
def test_a_process_that_dies_leaves_a_whole_bundle_or_none(
    add: Add, own: Path, model: Path, gguf: Path, measured: Path, replacing: bool
) -> None:
    """Killed at the Nth write for N = 1, 2, 3 until one run ends: never a bundle of some files, never a lost one."""
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom planner.bundles.add import Wanted, add_bundle\n"
        "left, sync = int(sys.argv[1]), os.fsync\n"
        "def dying(handle):\n global left\n left -= 1\n if left == 0: os._exit(9)\n sync(handle)\n"
        "os.fsync = dying\n"
        "wanted = Wanted(Path(sys.argv[2]), id='mine', replace=True)\n"
        "add_bundle(wanted, Path(sys.argv[3]), cache_dir=Path(sys.argv[4]))\n"
    )
    before = [add(gguf, id="mine").manifest.digest] if replacing else []
    codes = []
    for turn in range(1, 20):
        done = subprocess.run(
            [sys.executable, "-c", program, str(turn), str(model), str(own), str(measured)], cwd=ROOT, check=False
        )
        codes.append(done.returncode)
        listed = [row for row in list_bundles(own) if not row.shipped]
        assert [] == [row.id for row in listed if row.fault is not None]
        digests = [row.manifest.digest for row in listed if row.manifest is not None]
        if done.returncode == 0:
            assert (1, True) == (len(digests), digests != before)
            break
        assert before == digests
    assert [9, 9, 9, 9, 0] == codes


def test_a_bundle_taken_away_by_a_process_that_died_is_put_back(
    add: Add, own: Path, model: Path, gguf: Path, measured: Path
) -> None:
    """Killed between the two renames of a replacement: the next addition, of whatever bundle, restores it."""
    before = add(gguf, id="mine").manifest.digest
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom planner.bundles.add import Wanted, add_bundle\n"
        "rename, calls = Path.rename, []\n"
        "def dying(path, target):\n calls.append(target)\n"
        " return os._exit(9) if len(calls) == 2 else rename(path, target)\n"
        "Path.rename = dying\n"
        "wanted = Wanted(Path(sys.argv[1]), id='mine', replace=True)\n"
        "add_bundle(wanted, Path(sys.argv[2]), cache_dir=Path(sys.argv[3]))\n"
    )
    command = [sys.executable, "-c", program, str(model), str(own), str(measured)]
    assert 9 == subprocess.run(command, cwd=ROOT, check=False).returncode
    assert not (own / "mine").exists()
    add(model, id="other")
    assert before == open_bundle("mine", user_folder=own).manifest.digest


def test_a_place_that_cannot_be_exchanged_keeps_the_old_bundle(
    add: Add, own: Path, model: Path, gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk refuses the second of the two renames: the first is taken back."""
    add(model, id="mine")
    before = (own / "mine" / "bundle.json").read_bytes()
    rename = Path.rename

    def refusing(path: Path, target: Path) -> Path:
        if path.name.startswith(".adding-") and not path.name.endswith("-old"):
            raise OSError(5, "refused")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refusing)
    with pytest.raises(PlannerFault, match="file_not_readable"):
        add(gguf, id="mine", replace=True)
    assert (before, ["mine"]) == ((own / "mine" / "bundle.json").read_bytes(), left_over(own))


def test_a_users_folder_that_cannot_be_made_is_one_fault(add: Add, own: Path, model: Path) -> None:
    """A file stands where the folder should be."""
    own.parent.mkdir(parents=True)
    own.write_bytes(b"")
    with pytest.raises(PlannerFault, match="file_not_readable"):
        add(model)
