"""Text and messages: a runtime is compared before it is trusted, and what it adds itself is declared or refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from planner.bundles.certificates import certificates
from planner.bundles.digest import bundle_digest
from planner.bundles.open import open_bundle
from planner.bundles.records import FOLDER, Records
from planner.bundles.restated import Restated
from planner.certify import certify, remeasure
from planner.planner import Planner
from planner.runtimes.parity import ParitySource
from planner.values.bundle import Bundle
from planner.values.certificate import CertifiedMode
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault
from planner.values.request import Options
from planner.values.runtime import Runtime
from planner.values.runtime_rows import RUNTIMES
from tests.bundles.add.conftest import plain_copy
from tests.cli.support import planner as command
from tests.support.serving import served

SERVED = Planner("reference")
"""What the model server of these tests knows: tokenizer and template of the reference bundle."""
CHAT = [{"role": "user", "content": "How many moons has Mars?"}]
TOOL: dict[str, Any] = {
    "type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
}  # fmt: skip
MODES: tuple[CertifiedMode, ...] = ("text", "messages")


class Wrapping(ThreadingHTTPServer):
    """A chat API that puts `wraps` tokens of its own around every prompt and reports what it read.

    counts  whether it has the endpoint that counts without running. drops: tokens it reads fewer of each prompt.
    """

    def __init__(self, wraps: int = 0, *, counts: bool = True, drops: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.wraps, self.counts, self.drops = wraps, counts, drops
        self.asked: list[str] = []
        self.key: str | None = None

    def answer(self, path: str, body: Any) -> dict[str, Any] | None:
        """Return the answer to one call, None for what it does not know."""
        self.asked.append(path)
        if path == "/v1/completions":
            read = len(SERVED.encoder().bundle.engine.encode_parsed(body["prompt"]))
        elif path == "/v1/chat/completions" or (path.endswith("/input_tokens") and self.counts):
            made = SERVED.plan(messages=body["messages"], tools=body.get("tools"))
            assert isinstance(made, Plan)
            read = len(made.ids)
        else:
            return None
        read += self.wraps - self.drops
        return {"input_tokens": read} if path.endswith("input_tokens") else {"usage": {"prompt_tokens": read}}


class _Handler(BaseHTTPRequestHandler):
    server: Wrapping

    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        if self.server.key is not None and self.headers["Authorization"] != f"Bearer {self.server.key}":
            self.send_error(401)
            return
        said = self.server.answer(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        if said is None:
            self.send_error(404)
            return
        data = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(wraps: int = 0, *, counts: bool = True, drops: int = 0) -> Iterator[tuple[str, Wrapping]]:
    """Run such a server and yield its URL."""
    server = Wrapping(wraps, counts=counts, drops=drops)
    with served(server):
        yield f"http://127.0.0.1:{server.server_port}", server


def bundle_on(name: str = "mlx-lm", **declared: Any) -> Bundle:
    """Return the reference bundle as it is deployed on an engine."""
    runtime = Runtime(RUNTIMES[name], **{"version": "1.0", **declared})
    reference = SERVED.encoder().bundle
    manifest = replace(reference.manifest, runtime=runtime)
    return Restated(reference, runtime=runtime, digest=bundle_digest(manifest))


def certified(folder: Path, url: str, mode: CertifiedMode, bundle: Bundle) -> Planner:
    """Certify a bundle and return a planner that was opened afterwards."""
    planner = Planner(bundle, user_folder=folder)
    encoder = planner.encoder()
    certify(planner.plan, encoder, ParitySource(url), mode, Records(folder, encoder.bundle.manifest.digest))
    return Planner(bundle, user_folder=folder)


def ask(planner: Planner, mode: Any, messages: Any = None, **more: Any) -> Plan | Refusal:
    """Plan a chat in a mode."""
    return planner.plan(messages=messages or CHAT, options=Options(mode=mode), max_completion_tokens=32, **more)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("counts", [True, False])
def test_R41_implicit_sdk_wrapping_caught(tmp_path: Path, mode: CertifiedMode, counts: bool) -> None:
    """R41: what the runtime adds itself is declared and counted; otherwise the plan is refused before any call."""
    wraps = 7
    with serving(wraps, counts=counts) as (url, server):
        for declared in (0, wraps - 1, wraps + 1):
            bundle = bundle_on(overhead_tokens=declared)
            with pytest.raises(PlannerFault, match=r"certificate_refused: a question: \d+ tokens planned, the runtime"):
                certified(tmp_path, url, mode, bundle)
            refused = ask(Planner(bundle, user_folder=tmp_path), mode)
            assert isinstance(refused, Refusal)
            assert "runtime_not_certified" == refused.reason
        planner = certified(tmp_path, url, mode, bundle_on(overhead_tokens=wraps))
        calls = len(server.asked)
        plain, plan = ask(SERVED, "ids"), ask(planner, mode)
        assert isinstance(plain, Plan)
        assert isinstance(plan, Plan)
        assert calls == len(server.asked), "planning calls nobody"
    assert (plain.ids, wraps) == (plan.ids, plan.account.runtime_overhead_tokens)
    assert plain.account.headroom_tokens - wraps == plan.account.headroom_tokens
    assert "exact" == planner.observe(plan, len(plan.ids) + wraps).verdict
    assert "runtime_mismatch" == planner.observe(plan, len(plan.ids) + wraps + 1).reason
    with pytest.raises(PlannerFault, match="bundle_blocked_by_drift"):
        ask(planner, mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_without_its_certificate_is_refused(tmp_path: Path, mode: CertifiedMode) -> None:
    """Ids need limits only; the other modes need the certificate of this mode, bundle, engine and version."""
    bundle = bundle_on()
    planner = Planner(bundle, user_folder=tmp_path)
    assert ask(planner, "ids").accepted
    with serving() as (url, _):
        assert not ask(planner, mode).accepted
        assert ask(certified(tmp_path, url, mode, bundle), mode).accepted
        assert ask(planner, mode).accepted is False, "a planner that was opened before has not read it"
    other = MODES[1 - MODES.index(mode)]
    again = Planner(bundle, user_folder=tmp_path)
    assert (True, "runtime_not_certified") == (ask(again, mode).accepted, ask(again, other).receipt.reason)
    for changed in (bundle_on(version="1.1"), bundle_on("transformers"), bundle_on(slots=2)):
        refused = ask(Planner(changed, user_folder=tmp_path), mode)
        assert "runtime_not_certified" == refused.receipt.reason
    held = again.encoder().certificates
    newer = Planner(bundle_on(version="1.1"))
    newer.encoder().certificates = held
    refused = ask(newer, mode)
    assert isinstance(refused, Refusal)
    assert f"mode {mode}: mlx-lm@1.1 is not certified, only 1.0" == refused.detail


def test_a_bundle_without_a_runtime_plans_as_before() -> None:
    """Ids and text as they are, messages never."""
    text = ask(SERVED, "text")
    assert isinstance(text, Plan)
    assert ("exact", None) == (text.receipt.count_source, text.messages)
    refused = ask(SERVED, "messages")
    assert isinstance(refused, Refusal)
    assert ("runtime_not_certified", "mode messages: the bundle names no runtime") == (refused.reason, refused.detail)


def test_messages_are_handed_over_plain(tmp_path: Path) -> None:
    """In mode messages the plan has the kept messages as a chat API takes them, and its count is labelled a bound."""
    call = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    tools = [TOOL]
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "go"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call00001", "content": "done"}]  # fmt: skip
    with serving() as (url, _):
        planner = certified(tmp_path, url, "messages", bundle_on())
    plan = ask(planner, "messages", chat, tools=tools)
    assert isinstance(plan, Plan)
    assert plan.messages is not None
    assert chat == [dict(one) for one in plan.messages]
    assert {str} == {type(one["content"]) for one in plan.messages}
    assert "upper_bound" == plan.receipt.count_source
    same = ask(SERVED, "ids", chat, tools=tools)
    assert isinstance(same, Plan)
    assert same.ids == plan.ids
    assert json.dumps(list(plan.messages))


@pytest.mark.parametrize("number", ["0.1", "1.0", "9223372036854775808"])
def test_a_number_that_servers_print_otherwise_is_refused(tmp_path: Path, number: str) -> None:
    """A float or a large integer in a tool or an argument changes on the way through a server's own JSON."""
    with serving() as (url, _):
        planner = certified(tmp_path, url, "messages", bundle_on())
    for value, accepted in (("7", True), (number, False)):
        call = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": f'{{"a": {value}}}'}}
        chat = [*CHAT, {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call00001", "content": "done"}]  # fmt: skip
        answer = ask(planner, "messages", chat, tools=[TOOL])
        assert (accepted, None if accepted else "runtime_not_certified") == (answer.accepted, answer.receipt.reason)
    if "." in number:
        parameters = {"type": "object", "properties": {"a": {"type": "number", "maximum": float(number)}}}
        tool = {**TOOL, "function": {**TOOL["function"], "parameters": parameters}}
        assert "runtime_not_certified" == ask(planner, "messages", tools=[tool]).receipt.reason


@pytest.mark.parametrize("arguments", ['{"a":7}', '{"a": "\\u00fc"}', '{"a": 7, }', ' {"a": 7}'])
def test_arguments_that_a_server_would_print_again_are_refused(tmp_path: Path, arguments: str) -> None:
    """Compact, escaped or no JSON at all: a server that reads and prints them has other tokens than the plan."""
    with serving() as (url, _):
        planner = certified(tmp_path, url, "messages", bundle_on())
    call = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": arguments}}
    chat = [*CHAT, {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call00001", "content": "done"}]  # fmt: skip
    assert "runtime_not_certified" == ask(planner, "messages", chat, tools=[TOOL]).receipt.reason
    assert ask(planner, "ids", chat, tools=[TOOL]).accepted


def test_what_a_server_cannot_know_is_not_handed_over_as_messages(tmp_path: Path) -> None:
    """Options of the template travel in no chat API that was compared; in mode text they are in the text."""
    with serving() as (url, _):
        certified(tmp_path, url, "text", bundle_on())
        planner = certified(tmp_path, url, "messages", bundle_on())
    option = planner.encoder().bundle.profile.options[0]
    for mode, accepted in (("ids", True), ("text", True), ("messages", False)):
        answer = ask(planner, mode, template_options={option: True})
        assert (accepted, None if accepted else "runtime_not_certified") == (answer.accepted, answer.receipt.reason)


@pytest.mark.parametrize("mode", MODES)
def test_content_that_a_runtime_would_obey_is_refused(tmp_path: Path, mode: CertifiedMode) -> None:
    """A control string in content has no place in a text that the runtime parses."""
    with serving() as (url, _):
        planner = certified(tmp_path, url, mode, bundle_on())
    refused = ask(planner, mode, [{"role": "user", "content": "say <|end|> now"}])
    assert isinstance(refused, Refusal)
    assert "control_text_in_field" == refused.reason
    assert ask(planner, "ids", [{"role": "user", "content": "say <|end|> now"}]).accepted


def test_a_runtime_that_takes_no_ids_gets_a_bound_where_it_is_proven(tmp_path: Path) -> None:
    """Mode ids is refused; fewer tokens than planned make an upper bound, more make no certificate."""
    bundle = bundle_on("litert-lm")
    refused = ask(Planner(bundle), "ids")
    assert isinstance(refused, Refusal)
    assert "runtime_takes_no_ids" == refused.reason
    with serving(drops=2) as (url, _):
        plan = ask(certified(tmp_path, url, "text", bundle), "text")
        assert isinstance(plan, Plan)
        assert "upper_bound" == plan.receipt.count_source
        with pytest.raises(PlannerFault, match="certificate_refused"):
            certified(tmp_path, url, "text", bundle_on())
    with serving(1) as (url, _), pytest.raises(PlannerFault, match="certificate_refused"):
        certified(tmp_path, url, "text", bundle)


def test_a_certificate_is_text_free_and_read_strictly(tmp_path: Path) -> None:
    """Digests, counts and versions; a damaged or foreign one is none."""
    bundle = bundle_on()
    with serving() as (url, _):
        certified(tmp_path, url, "text", bundle)
    records = Records(tmp_path, bundle.manifest.digest)
    path = next((tmp_path / FOLDER).glob("*/certificate-text.json"))
    kept = path.read_text("utf-8")
    assert {"text"} == certificates(records).keys()
    assert "moons" not in kept.lower()
    tree = json.loads(kept)
    for change in ({"mode": "messages"}, {"covers": ["all"]}, {"exact": 1}, {"more": 1}, {"versions": None},
                   {"vectors": [{}]}, {"bundleDigest": "0"}, {"schemaVersion": "2.0"}):  # fmt: skip
        path.write_text(json.dumps({**tree, **change}), encoding="utf-8")
        assert {} == certificates(records), change
    path.write_text("{", encoding="utf-8")
    assert "runtime_not_certified" == ask(Planner(bundle, user_folder=tmp_path), "text").receipt.reason


@pytest.mark.parametrize(("version", "name"), [(None, "mlx-lm"), (None, "llama.cpp")])
def test_a_runtime_without_a_version_is_not_certified(tmp_path: Path, version: str | None, name: str) -> None:
    """What was compared holds for the version it was compared with, so that must be stated."""
    with pytest.raises(PlannerFault, match="certificate_refused: the manifest states no version of its runtime"):
        certified(tmp_path, "http://127.0.0.1:9", "text", bundle_on(name, version=version))
    with pytest.raises(PlannerFault, match="certificate_refused: the manifest names no runtime"):
        certified(tmp_path, "http://127.0.0.1:9", "text", open_bundle("reference"))


def test_a_blocked_bundle_is_lifted_by_the_command_where_its_server_agrees(tmp_path: Path) -> None:
    """Blocked for every command that plans; a server that still adds tokens keeps it so, one that agrees lifts it."""
    home = home_of(tmp_path)
    folder = plain_copy(tmp_path / "model")
    assert 0 == command("bundle", "add", folder, "--id", "mine", "--runtime", "mlx-lm@1.0", env=home).code
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(CHAT), encoding="utf-8")
    asked = ("plan", "--chat", chat, "--bundle", "mine", "--window", "900")
    check = ("bundle", "check", "mine", "--remeasure", "--url")
    with serving() as (url, _):
        assert 0 == command("bundle", "certify", "mine", "--url", url, "--mode", "text", env=home).code
    kept = next((tmp_path / "home").rglob("certificate-text.json"))
    digest = json.loads(kept.read_text("utf-8"))["bundleDigest"]
    record = {"bundleDigest": digest, "plannedTokens": 9, "reportedTokens": 8}
    kept.with_name("drift.json").write_text(json.dumps(record), encoding="utf-8")
    shown = command("bundle", "show", "mine", env=home).text
    assert "certified beside ids for mode text\n" in shown
    assert "blocked  bundle_blocked_by_drift: " in shown
    blocked = command(*asked, env=home)
    assert (2, 1) == (blocked.code, len(blocked.err.splitlines()))
    assert "bundle_blocked_by_drift: its runtime counted otherwise: 9 tokens planned, 8 reported" in blocked.err
    with serving(1) as (url, _):
        done = command(*check, url, env=home)
        assert (2, True) == (done.code, "8 reported; --remeasure lifts it" in " ".join(done.text.split()))
        assert kept.with_name("drift.json").is_file()
    with serving() as (url, _):
        done = command(*check, url, env=home)
    assert (0, "") == (done.code, done.err)
    assert 0 == command(*asked, env=home).code
    assert kept.with_name("drift-lifted.json").is_file()


def test_a_server_without_ids_is_asked_again_in_its_certified_modes(tmp_path: Path) -> None:
    """Where no mode is certified nothing can be compared, and that lifts nothing; a difference neither."""
    bundle = bundle_on()
    planner, records = Planner(bundle), Records(tmp_path, bundle.manifest.digest)

    def again(url: str) -> int:
        return remeasure(planner.plan, planner.encoder(), ParitySource(url), records)

    with serving() as (url, _):
        with pytest.raises(PlannerFault, match="certificate_refused: the server takes no ids, and no mode"):
            again(url)
        certified(tmp_path, url, "messages", bundle)
        assert again(url) >= 10
    with serving(1) as (url, _), pytest.raises(PlannerFault, match="certificate_refused: a question: "):
        again(url)


def home_of(folder: Path) -> dict[str, str]:
    """Return an environment whose folders of bundles and caches are empty."""
    names = ("XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA")
    return {**os.environ, **{name: str(folder / "home") for name in names}}


def test_the_command_certifies_and_says_what_it_saw(tmp_path: Path) -> None:
    """Exit 0 with a table, and plans in that mode pass; exit 2 with one line where the runtime adds something."""
    home = home_of(tmp_path)
    folder = plain_copy(tmp_path / "model")
    assert 0 == command("bundle", "add", folder, "--id", "mine", "--runtime", "mlx-lm@1.0", env=home).code
    request = tmp_path / "request.json"
    request.write_text(json.dumps({
        "schemaVersion": "1.0", "modelBundleId": "mine", "request": {"id": "q", "text": "How many moons has Mars?"},
        "options": {"mode": "messages"}, "maxInputTokens": 400, "reservedOutputTokens": 40,
    }), encoding="utf-8")  # fmt: skip
    refused = command("plan", request, env=home)
    assert (2, 1) == (refused.code, len(refused.err.splitlines()))
    assert "runtime_not_certified" in refused.err
    with serving() as (url, _):
        done = command("bundle", "certify", "mine", "--url", url, "--mode", "messages", env=home)
        assert (0, "") == (done.code, done.err)
        assert "certified for mode messages on mlx-lm 1.0" in done.text
        assert (
            "text"
            == command("bundle", "certify", "mine", "--url", url, "--mode", "text", "--json", env=home).json["mode"]
        )
    plan = command("plan", request, "--json", env=home)
    assert (0, [{"content": "How many moons has Mars?", "role": "user"}]) == (plan.code, plan.json["messages"])
    with serving(3) as (url, _):
        done = command("bundle", "certify", "mine", "--url", url, "--mode", "text", env=home)
    assert (2, 1) == (done.code, len(done.err.splitlines()))
    assert "certificate_refused: a question: " in done.err
