"""`planner run` up to the call and after it, against a server that says what a test wants."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.cli.files import user_folder
from tests.cli.ledger_support import here
from tests.cli.support import CHAT, Done, small_request
from tests.support.upstream import CANARY, Upstream, running

Capture = pytest.CaptureFixture[bytes]
END: dict[str, Any] = {"content": "done", "tokens": [7], "stop": True, "stop_type": "eos", "truncated": False,
                       "id_slot": 0, "tokens_predicted": 1}  # fmt: skip


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference blocks a bundle for its user: here for nobody else."""
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A running server with one slot of 400 tokens."""
    with running() as server:
        _window(server, 400)
        yield server


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    """A request that is 400 tokens wide."""
    path = tmp_path / "request.json"
    path.write_bytes(small_request())
    return path


def _window(server: Upstream, tokens: int, slots: int = 1) -> None:
    props = {"default_generation_settings": {"n_ctx": tokens}, "total_slots": slots}
    server.answers["/props"] = (200, json.dumps(props).encode())
    listed = [{"id": index, "n_ctx": tokens} for index in range(slots)]
    server.answers["/slots"] = (200, json.dumps(listed).encode())


def _says(server: Upstream, read: int, cached: int = 0, **more: Any) -> None:
    event = END | {"tokens_evaluated": read, "timings": {"cache_n": cached, "prompt_n": read - cached}} | more
    whole, streamed = json.dumps(event).encode(), b"data: " + json.dumps(event).encode() + b"\n\n"
    server.answers["/completion"] = (200, whole if "whole" in more else streamed)


def _planned(capture: Capture, *arguments: str | Path) -> Any:
    return here(capture, "plan", *arguments, "--json").json


def _run(capture: Capture, server: Upstream, *arguments: str | Path) -> Done:
    return here(capture, "run", *arguments, "--url", server.url)


def test_R43_plan_returns_exact_token_ids(upstream: Upstream, request_file: Path, capsysbinary: Capture) -> None:
    """A request, its plan written down, its receipt with the ids beside it: the same ids and the same room."""
    plan = _planned(capsysbinary, request_file)
    files = {name: request_file.with_name(name) for name in ("plan.json", "receipt.json", "ids.npy")}
    files["plan.json"].write_text(json.dumps(plan), encoding="utf-8")
    here(capsysbinary, "plan", request_file, "--receipt", files["receipt.json"], "--ids", files["ids.npy"])
    _says(upstream, len(plan["ids"]))
    for source in ([request_file], [files["plan.json"]], [files["receipt.json"], "--ids", files["ids.npy"]]):
        done = _run(capsysbinary, upstream, *source)
        assert (0, "done\n") == (done.code, done.text)
        sent = upstream.asked[-1][1]
        assert (plan["ids"], plan["maxOutputTokens"]) == (sent["prompt"], sent["n_predict"])
        assert f"prompt tokens: {len(plan['ids'])} planned, {len(plan['ids'])} reported" in done.err
        assert 1 == done.err.count("\n")


def test_R41_implicit_sdk_wrapping_caught(upstream: Upstream, request_file: Path, capsysbinary: Capture) -> None:
    """A server that put one token before the prompt, or lost one, is found: both numbers, one line, exit 2."""
    plan = _planned(capsysbinary, request_file)
    total = len(plan["ids"])
    request_file.write_text(json.dumps(plan), encoding="utf-8")
    for read in (total - 1, total + 1):
        shutil.rmtree(user_folder(), ignore_errors=True)
        _says(upstream, read)
        done = _run(capsysbinary, upstream, request_file)
        line = f"context plan rejected: runtime_mismatch: prompt tokens: {total} planned, {read} reported\n"
        assert (2, "done\n", line) == (done.code, done.text, done.err)
        shutil.rmtree(user_folder())
        _says(upstream, read, whole=True)
        found = _run(capsysbinary, upstream, request_file, "--json")
        assert (2, line) == (found.code, found.err)
        assert [{"what": "prompt tokens", "planned": total, "reported": read}] == found.json["differences"]
        assert ("runtime_truncated" if read < total else "drift") == found.json["verdict"]


def test_a_difference_blocks_the_bundle_until_it_is_measured_again(
    upstream: Upstream, request_file: Path, capsysbinary: Capture
) -> None:
    """No later call of it, from whichever command, and whether its plan is made then or was written down (X60)."""
    plan = _planned(capsysbinary, request_file)
    total, written = len(plan["ids"]), request_file.with_name("plan.json")
    written.write_text(json.dumps(plan), encoding="utf-8")
    receipt, ids = request_file.with_name("receipt.json"), request_file.with_name("ids.npy")
    here(capsysbinary, "plan", request_file, "--receipt", receipt, "--ids", ids)
    sources: list[list[str | Path]] = [[request_file], [written], [receipt, "--ids", ids]]
    for differing in sources:
        _says(upstream, total + 1)
        assert 2 == _run(capsysbinary, upstream, *differing).code
        _says(upstream, total)
        asked = len(upstream.asked)
        for source in sources:
            done = _run(capsysbinary, upstream, *source)
            assert (2, "") == (done.code, done.text)
            assert "bundle_blocked_by_drift" in done.err
        assert "/completion" not in [path for path, _ in upstream.asked[asked:]]
        assert 0 == here(capsysbinary, "bundle", "check", "reference", "--remeasure").code
        assert 0 == _run(capsysbinary, upstream, *differing).code


def test_declared_wrapping_is_expected(upstream: Upstream, request_file: Path, capsysbinary: Capture) -> None:
    """Three tokens that the bundle says its runtime adds: reported with them is as planned, without them is not."""
    plan = _planned(capsysbinary, request_file)
    for account in (plan["account"], plan["receipt"]["account"]):
        account["runtimeOverheadTokens"] = 3
    request_file.write_text(json.dumps(plan), encoding="utf-8")
    for added, code in ((3, 0), (0, 2)):
        _says(upstream, len(plan["ids"]) + added)
        assert code == _run(capsysbinary, upstream, request_file).code


def test_a_window_that_is_too_small_is_refused_before_the_call(
    upstream: Upstream, request_file: Path, capsysbinary: Capture
) -> None:
    """Also where the prompt itself would fit: the plan promised its answer the rest."""
    _window(upstream, 399)
    done = _run(capsysbinary, upstream, request_file)
    words = "runtime_mismatch: the plan is made for 400 tokens, the server's window has 399"
    assert (2, f"context plan rejected: {words}\n", "") == (done.code, done.err, done.text)
    assert "/completion" not in [path for path, _ in upstream.asked]


@pytest.mark.parametrize(("slots", "named", "compared"), [(1, (), True), (2, (), False), (2, ("--slot", "0"), True)])
def test_cached_tokens_are_compared_where_the_least_is_known(
    upstream: Upstream, request_file: Path, capsysbinary: Capture, slots: int, named: tuple[str, ...], compared: bool
) -> None:
    """After a previous call in the one slot: fewer than its prompt and answer share is a lost cache, more is none."""
    _window(upstream, 400, slots)
    before = _planned(capsysbinary, request_file)["ids"]
    request_file.write_bytes(small_request(previous={"planId": "p-1", "ids": before, "generatedIds": [1, 2]}))
    _says(upstream, len(before), cached=0)
    done = _run(capsysbinary, upstream, request_file, *named)
    assert (2 if compared else 0) == done.code
    assert compared is (f"cached tokens: {len(before) - 1} planned, 0 reported" in done.err)
    _says(upstream, len(before), cached=len(before) - 1)
    done = _run(capsysbinary, upstream, request_file, *named)
    assert 0 == done.code
    assert compared is (f"cached: {len(before) - 1} ({len(before) - 1} expected)" in done.err)


def test_what_is_no_plan_is_not_run(upstream: Upstream, request_file: Path, capsysbinary: Capture) -> None:
    """Refusals, changed ids, another receipt's ids, a full window and contradicting options; nothing is sent."""
    plan = _planned(capsysbinary, request_file)
    folder = request_file.parent
    here(capsysbinary, "plan", request_file, "--receipt", folder / "receipt.json", "--ids", folder / "ids.npy")
    here(capsysbinary, "plan", request_file, "--reserve", "9", "--ids", folder / "same.npy")
    refusal = here(capsysbinary, "plan", request_file, "--window", "12", "--reserve", "2", "--json").json
    other = small_request(request={"id": "q", "text": f"And {CANARY}?"})
    (folder / "other.json").write_bytes(other)
    here(capsysbinary, "plan", folder / "other.json", "--ids", folder / "other.npy")
    written = {
        "changed.json": plan | {"ids": [*plan["ids"][:-1], 9]}, "refusal.json": refusal,
        "refused.json": refusal["receipt"],
        "full.json": json.loads(small_request(maxInputTokens=len(plan["ids"]), reservedOutputTokens=0,
                                              safetyMarginTokens=0)),
    }  # fmt: skip
    for name, tree in written.items():
        (folder / name).write_text(json.dumps(tree), encoding="utf-8")
    cases: list[tuple[list[str | Path], str]] = [
        ([folder / "changed.json"], "invalid-input: $.ids: are not the ids"),
        ([folder / "refusal.json"], "context_policy_overflow"),
        ([folder / "refused.json", "--ids", folder / "ids.npy"], "invalid-input: $: is the receipt of a refusal"),
        ([folder / "receipt.json"], "invalid-input: a receipt holds no ids"),
        ([folder / "receipt.json", "--ids", folder / "other.npy"], "invalid-input: --ids: are not the ids"),
        ([folder / "full.json"], "invalid-input: $.reservedOutputTokens: the plan leaves no token"),
        ([folder / "receipt.json", "--ids", folder / "ids.npy", "--window", "300"], "invalid-input: a plan is run as"),
        ([request_file, "--ids", folder / "ids.npy"], "invalid-input: --ids goes with a receipt"),
        ([request_file, "--chat", CHAT], "invalid-input: name either"),
        ([], "invalid-input: name either"),
        ([request_file, "--tools", CHAT], "invalid-input: --tools goes with --chat"),
        ([request_file, "--api-key-env", "PLANNER_NO_SUCH"], "invalid-input: --api-key-env names no variable"),
    ]
    for arguments, words in cases:
        done = _run(capsysbinary, upstream, *arguments)
        assert (2, "", 1) == (done.code, done.text, done.err.count("\n")), done.err
        assert words in done.err
        assert CANARY not in done.err
    assert "/completion" not in [path for path, _ in upstream.asked]


def test_a_chat_is_planned_and_run(upstream: Upstream, capsysbinary: Capture) -> None:
    """The shape a chat API takes, with a window of its own."""
    _window(upstream, 4_096)
    options = ("--chat", CHAT, "--bundle", "reference", "--window", "2048")
    total = len(_planned(capsysbinary, *options)["ids"])
    _says(upstream, total, whole=True)
    done = _run(capsysbinary, upstream, *options, "--json")
    assert (0, {"planned": total, "reported": total}) == (done.code, done.json["promptTokens"])
    assert ("done", [7], {"planned": 2048, "reported": 4096}) == tuple(
        done.json[key] for key in ("text", "generatedIds", "windowTokens")
    )


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_is_not_steered_by_an_answer(
    upstream: Upstream, request_file: Path, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    """Control characters of a model are shown as signs there; a pipe gets the answer as it is."""
    _says(upstream, len(_planned(capsysbinary, request_file)["ids"]), content="a\x1b[2Jb\r\n\tc夜")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    shown = _run(capsysbinary, upstream, request_file).text
    assert ("a\ufffd[2Jb\ufffd\n\tc夜\n" if terminal else "a\x1b[2Jb\r\n\tc夜\n") == shown


def test_no_word_of_a_conversation_is_in_an_error(upstream: Upstream, tmp_path: Path, capsysbinary: Capture) -> None:
    """Whatever the server answers."""
    path = tmp_path / "request.json"
    path.write_bytes(small_request(request={"id": "q", "text": f"And {CANARY}?"}))
    for status, body in ((500, CANARY.encode()), (200, b"data: " + CANARY.encode() + b"\n\n"), (302, b"")):
        upstream.answers["/completion"] = (status, body)
        done = _run(capsysbinary, upstream, path)
        assert (2, 1) == (done.code, done.err.count("\n"))
        assert "upstream_failed" in done.err
        assert CANARY not in done.err
