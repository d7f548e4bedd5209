"""A model server that answers each path with what a test put there and keeps what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.serving import served

CANARY = "canary-7f3a"


class Upstream(ThreadingHTTPServer):
    """A server that answers each path with what a test put there and keeps what it was sent."""

    def __init__(self) -> None:
        """Listen on a free port of this machine."""
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[tuple[str, Any]] = []
        self.missing_bytes = 0
        self.going_on = threading.Event()
        self.going_on.set()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Upstream

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        self.server.asked.append((self.path, body))
        status, data = self.server.answers.get(self.path, (404, b""))
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(data) + self.server.missing_bytes))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()
        self.server.going_on.wait(30)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def running() -> Iterator[Upstream]:
    """Run one while the block lasts."""
    server = Upstream()
    with served(server):
        yield server
