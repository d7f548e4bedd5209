"""A llama.cpp server in a process of its own, where the wheel that brings it is installed.

It dies with this process: it waits on its standard input, which closes when we end.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

_CHILD = """
import json
import sys
import xllamacpp as x
params = x.CommonParams()
params.model.path = sys.argv[1]
params.n_parallel, params.ctx_shift, params.warmup = 1, False, False
params.cpuparams.n_threads = 1
for name, value in json.loads(sys.argv[2]).items():
    assert hasattr(params, name), name
    setattr(params, name, value)
if hasattr(params, "ui"):
    params.ui = False
server = x.Server(params)
print("at " + server.listening_address, flush=True)
sys.stdin.read()
"""


def installed() -> bool:
    """Tell whether the wheel is here."""
    return importlib.util.find_spec("xllamacpp") is not None


NEEDS_LLAMA = [
    pytest.mark.runtime,
    pytest.mark.skipif(not installed(), reason="the wheel xllamacpp is not installed: no llama.cpp to ask"),
]
"""Marks of a module whose tests ask a real llama.cpp; `make test-adapters` runs them."""


class LlamaServer:
    """Serve one model file while the `with` block lasts."""

    def __init__(self, model: Path, *, context: int = 512, **settings: Any) -> None:
        """Keep the settings; those beside `context` are fields of the library's parameters by name."""
        fields = json.dumps({"n_ctx": context, **settings})
        self._command = [sys.executable, "-c", _CHILD, str(model), fields]
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

    def template_of(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] = (), **kwargs: Any) -> str:
        """Return the prompt text that the runtime's own template engine makes of a list; `kwargs` go to it."""
        return str(self.post("/apply-template", _chat(messages, tools, kwargs))["prompt"])

    def counted(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] = (), **kwargs: Any) -> int:
        """Return how many prompt tokens the chat endpoint would read for a list, without running it."""
        return int(self.post("/v1/chat/completions/input_tokens", _chat(messages, tools, kwargs))["input_tokens"])

    def tokenize(self, text: str, *, parse_special: bool = True, add_special: bool = False) -> list[int]:
        """Return the runtime's own ids of a text."""
        body = {"content": text, "parse_special": parse_special, "add_special": add_special}
        return list(self.post("/tokenize", body)["tokens"])


def _chat(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"messages": list(messages)}
    if tools:
        body["tools"] = list(tools)
    if kwargs:
        body["chat_template_kwargs"] = dict(kwargs)
    return body
