"""A llama.cpp server in a process of its own, where the wheel that brings it is installed.

It dies with this process: it waits on its standard input, which closes when we end.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

_CHILD = """
import sys
import xllamacpp as x
params = x.CommonParams()
params.model.path = sys.argv[1]
params.n_parallel, params.ctx_shift, params.warmup = 1, False, False
params.cpuparams.n_threads = 1
params.n_ctx = int(sys.argv[2])
if hasattr(params, "ui"):
    params.ui = False
server = x.Server(params)
print("at " + server.listening_address, flush=True)
sys.stdin.read()
"""


def installed() -> bool:
    """Tell whether the wheel is here."""
    return importlib.util.find_spec("xllamacpp") is not None


class LlamaServer:
    """Serve one model file while the `with` block lasts."""

    def __init__(self, model: Path, *, context: int = 512) -> None:
        self._command = [sys.executable, "-c", _CHILD, str(model), str(context)]
        self._child: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> LlamaServer:
        child = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._child = child
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith(b"at http"):
                self.url = line[3:].decode().strip()
                return self
        self.__exit__(None, None, None)
        raise AssertionError("the server did not start")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        child = self._child
        if child is not None and child.stdin is not None and child.stdout is not None:
            child.stdin.close()
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            child.stdout.close()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Return the answer to a JSON request. Raises urllib.error.HTTPError."""
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def tokenize(self, text: str, *, parse_special: bool = True, add_special: bool = False) -> list[int]:
        """Return the runtime's own ids of a text."""
        body = {"content": text, "parse_special": parse_special, "add_special": add_special}
        return list(self.post("/tokenize", body)["tokens"])
