"""Images and sounds in what a person reads: a line of the account that is in no sum, and where each part stands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from planner.cli.account_lines import account_lines, part_lines
from planner.values.plan import Plan
from planner.wire.parse import parse_plan
from tests.cli.support import ROOT, Done, planner, small_request

NAME = "of request and history: images and sounds"


def bundle(folder: Path, **stated: Any) -> Path:
    """Write the embedded bundle with more stated in its manifest."""
    shutil.copytree(ROOT / "model_bundles" / "reference", folder)
    manifest = json.loads((folder / "bundle.json").read_bytes())
    (folder / "bundle.json").write_text(json.dumps(manifest | stated), encoding="utf-8")
    return folder


def request(tokens: bool = True) -> bytes:
    """Return a request whose earlier turn holds a picture and whose question a sound."""
    image = {"type": "image", "id": "photo", "widthPx": 30, "heightPx": 20}
    sound = {"type": "audio", "id": "tune", "durationMs": 900}
    seen = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "See."}, *([image] if tokens else [])]}
    heard = {"id": "m3", "role": "user", "parts": [{"type": "text", "text": "Hear."}, *([sound] if tokens else [])]}
    turns = [
        {"id": "t1", "sequence": 1, "state": "completed", "messages": [
            seen, {"id": "m2", "role": "assistant", "text": "A lift."}]},
        {"id": "t2", "sequence": 2, "state": "open", "messages": [heard]},
    ]  # fmt: skip
    return small_request(turns=turns, request={"turnId": "t2"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with costs of parts, and the plan and receipt of a request with two."""
    made = tmp_path_factory.mktemp("parts")
    costs = [
        {"type": "image", "placeholder": "<|reserved_0|>", "cost": {"rule": "flat", "tokens": 7}},
        {"type": "audio", "placeholder": "<|reserved_1|>", "cost": {"rule": "flat", "tokens": 4}},
    ]
    bundle(made / "seeing", parts=costs)
    (made / "request.json").write_bytes(request())
    done = planner(
        "plan", made / "request.json", "--bundle", made / "seeing", "--json", "--receipt", made / "receipt.json"
    )
    assert 0 == done.code, done.err
    (made / "plan.json").write_bytes(done.out)
    return made


def cells(done: Done, first: str) -> list[str]:
    """Return the cells of the one line that begins with these words."""
    (line,) = [line for line in done.text.splitlines() if line.strip().startswith(first)]
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_the_drawn_account_says_what_images_and_sounds_take(folder: Path) -> None:
    """Of a plan, and of a receipt alone, with each part in its message."""
    planned = planner("plan", folder / "request.json", "--bundle", folder / "seeing")
    told = planner("explain", folder / "receipt.json")
    for done in (planned, told):
        assert 0 == done.code, done.err
        assert [NAME, "11", "2.8 %"] == cells(done, NAME)
    assert ["photo", "image", "t1", "m1", "7"] == cells(told, "photo")
    assert ["tune", "audio", "t2", "m3", "4"] == cells(told, "tune")


def test_the_line_is_in_no_sum(folder: Path) -> None:
    """The other lines add up to the limit with it as without it, and request and history hold it already."""
    plan = parse_plan((folder / "plan.json").read_bytes())
    assert isinstance(plan, Plan)
    account = plan.account
    assert account.input_limit == sum(line.tokens for line in account_lines(account))
    assert 11 == account.part_tokens == sum(line.tokens for line in part_lines(account))
    assert account.part_tokens <= account.request_tokens + account.history_tokens
    assert len(plan.ids) == account.input_tokens


def test_without_parts_there_is_no_such_line(folder: Path) -> None:
    """Neither of a plan nor of a receipt."""
    (folder / "plain.json").write_bytes(request(tokens=False))
    done = planner("plan", folder / "plain.json", "--bundle", folder / "seeing", "--receipt", folder / "plain.receipt")
    told = planner("explain", folder / "plain.receipt")
    assert (0, 0) == (done.code, told.code), done.err
    assert "images" not in done.text + told.text
    assert "image or sound" not in told.text


def test_two_accounts_with_other_lines_are_compared(folder: Path) -> None:
    """A line that only one of the two has is 0 in the other: parts here, what a runtime adds there."""
    runtime = {"name": "llama.cpp", "version": "xllamacpp-2026.10.11549", "overheadTokens": 3}
    running = bundle(folder / "running", runtime=runtime)
    plain, there = folder / "words.json", folder / "there.json"
    plain.write_bytes(request(tokens=False))
    assert 0 == planner("plan", plain, "--bundle", running, "--receipt", there).code
    for before, after in ((folder / "receipt.json", there), (there, folder / "receipt.json")):
        done = planner("diff", before, after, "--json")
        assert (0, "") == (done.code, done.err)
        lines = {row["line"]: (row["before"], row["after"]) for row in done.json["tokens"]}
        wanted = {NAME: (11, 0), "added by the runtime": (0, 3)}
        turned = wanted if after == there else {name: pair[::-1] for name, pair in wanted.items()}
        assert turned.items() <= lines.items()
        assert "free" == [row["line"] for row in done.json["tokens"]][-1]
