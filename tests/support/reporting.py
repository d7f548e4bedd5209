"""A model server that keeps a session, loses what a test plants, and reports its count in one of five meanings."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from planner.values.observation import Reported


class ReportingServer(ThreadingHTTPServer):
    """Takes ids, drops `lose` of them from the front without a word, adds `adds`, and says what it counted.

    meaning   one of the profile's meanings; `unknown` reports a number that counts none of them.
    tells     whether it reports cached tokens beside its count.
    """

    daemon_threads = True

    def __init__(self, meaning: str, *, tells: bool = True, thinks: bool = True, caches: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.meaning, self.tells, self.thinks, self.caches = meaning, tells, thinks, caches
        self.held: list[int] = []
        self.adds = 0
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,))

    def __enter__(self) -> ReportingServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def run(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer one call: the session then holds prompt and answer, and thoughts until they are taken back."""
        read = [*range(self.adds), *body["ids"][body["lose"] :]]
        cached = 0
        if self.caches:
            while cached < min(len(read) - 1, len(self.held)) and read[cached] == self.held[cached]:
                cached += 1
        thought = body["think"] if self.thinks else 0
        output = body["output"]
        self.held = [*read, *range(output)]
        count = {
            "whole_prompt": len(read),
            "prefilled_now": len(read) - cached,
            "session_with_output": len(read) + output,
            "session_with_reasoning": len(read) + thought + output,
            "unknown": 7 * len(read) + 3,
        }[self.meaning]
        return {"count": count, "cached": cached if self.tells else None, "output": output, "thought": thought}

    def ask(self, ids: Sequence[int], *, output: int, think: int = 0, lose: int = 0) -> Reported:
        """Call the server over HTTP and return its figures."""
        body = {"ids": list(ids), "output": output, "think": think, "lose": lose}
        request = urllib.request.Request(f"http://127.0.0.1:{self.server_port}/", json.dumps(body).encode())
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            said = json.loads(answer.read())
        return Reported(
            said["count"], cached_tokens=said["cached"], output_tokens=said["output"],
            reasoning_tokens=said["thought"], moment="before_rollback",
        )  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    server: ReportingServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = json.dumps(self.server.run(body)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
