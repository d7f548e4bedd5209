"""A conversation worth compacting, a model server that summarises, and the command in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from planner.cli.main import run
from tests.cli.support import Done
from tests.support.extractive import summarise
from tests.support.serving import served

CANARY = "canary7f3a"
POLICY = {"role": "system", "content": "Answer shortly."}


def chat(turns: int = 12, *, answered: bool = False) -> list[dict[str, Any]]:
    """Return an OpenAI list whose every message holds the canary; the last question is open unless `answered`."""
    messages: list[dict[str, Any]] = [POLICY]
    for at in range(turns):
        task = f"Please paint frame {at} blue for {CANARY} and spend at most {at + 10} euro on it. " * 3
        messages += [
            {"role": "user", "content": task.strip()},
            {"role": "assistant", "content": f"Fine, I will paint frame {at} for {CANARY}. " * 3},
        ]
    return messages if answered else [*messages, {"role": "user", "content": f"What next, {CANARY}?"}]


def chat_file(folder: Path, turns: int = 12) -> Path:
    """Write the list into a folder."""
    path = folder / "chat.json"
    path.write_text(json.dumps(chat(turns)), encoding="utf-8")
    return path


def here(capture: pytest.CaptureFixture[bytes], *arguments: str | Path) -> Done:
    """Run one command line in this process."""
    capture.readouterr()
    code = run([str(part) for part in arguments])
    out, err = capture.readouterr()
    return Done(code, out, err.decode())


Answer = Callable[[list[dict[str, str]]], str]


def extractive(messages: list[dict[str, str]]) -> str:
    """Summarise without a model."""
    return summarise(messages[0]["content"], messages[1]["content"])


class Model(ThreadingHTTPServer):
    """A server on this machine: OpenAI messages, or llama.cpp ids where it knows what they stand for."""

    def __init__(self) -> None:
        """Listen on a free port."""
        self.answer: Answer = extractive
        self.finish = "stop"
        self.status = 200
        self.known: dict[tuple[int, ...], list[dict[str, str]]] | None = None
        self.asked: list[tuple[str, str | None]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server_port}"

    def asked_for_text(self) -> int:
        """Return how many answers were asked for."""
        return sum(path != "/props" for path, _ in self.asked)


class _Handler(BaseHTTPRequestHandler):
    server: Model

    def do_GET(self) -> None:
        self.server.asked.append((self.path, None))
        llama = self.path == "/props" and self.server.known is not None
        self._send(200 if llama else 404, {"default_generation_settings": {}} if llama else {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model = self.server
        model.asked.append((self.path, self.headers.get("Authorization")))
        if self.path == "/completion":
            text = model.answer((model.known or {})[tuple(body["prompt"])])
            tree: Any = {"content": text, "tokens_evaluated": len(body["prompt"]), "stop_type": "eos"}
        else:
            message = {"content": model.answer(body["messages"])}
            tree = {"choices": [{"message": message, "finish_reason": model.finish}]}
        self._send(model.status, tree)

    def _send(self, status: int, tree: Any) -> None:
        data = json.dumps(tree).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def model_server() -> Iterator[Model]:
    """Run the server."""
    server = Model()
    with served(server):
        yield server
