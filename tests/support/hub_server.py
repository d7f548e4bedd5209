"""A local server that answers as the hub's interface does: what a repository holds, and its files by commit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.serving import served


@dataclass
class Hub:
    """One repository: files by commit, branches by name, and what is to go wrong.

    `served` replaces the bytes of a file without telling; `status` is the answer to everything.
    """

    repository: str = "owner/model"
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    large: frozenset[str] = frozenset()
    served: dict[str, bytes] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    status: int | None = None
    asked: list[str] = field(default_factory=list)
    endpoint: str = ""

    def info(self, revision: str) -> dict[str, Any] | None:
        """Return what the interface tells about a revision, None for an unknown one."""
        commit = self.branches.get(revision, revision)
        if commit not in self.commits:
            return None
        rows = []
        for name, data in self.commits[commit].items():
            row: dict[str, Any] = {"rfilename": name, "size": self.sizes.get(name, len(data))}
            row["blobId"] = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
            if name in self.large:
                row["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            rows.append(row)
        return {"_id": "1", "id": self.repository, "modelId": self.repository, "sha": commit, "private": False,
                "tags": [], "downloads": 0, "likes": 0, "siblings": rows}  # fmt: skip


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _send(self, status: int, data: bytes, headers: dict[str, str], *, body: bool = True) -> None:
            self.send_response(status)
            for key, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            if body:
                self.wfile.write(data)

        def _answer(self, *, body: bool) -> None:
            path = self.path.partition("?")[0]
            hub.asked.append(path)
            api, files = f"/api/models/{hub.repository}/revision/", f"/{hub.repository}/resolve/"
            if hub.status is not None:
                return self._send(hub.status, b"{}", {}, body=body)
            if path.startswith(api):
                found = hub.info(path[len(api) :])
                if found is None:
                    return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"}, body=body)
                return self._send(200, json.dumps(found).encode(), {"Content-Type": "application/json"}, body=body)
            commit, _, name = path[len(files) :].partition("/")
            if not path.startswith(files) or name not in hub.commits.get(commit, {}):
                return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body=body)
            data = hub.served.get(name, hub.commits[commit][name])
            tag = hashlib.sha256(hub.commits[commit][name]).hexdigest()
            return self._send(200, data, {"ETag": f'"{tag}"', "X-Repo-Commit": commit}, body=body)

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

    return Handler


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serve a repository on this machine until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    with served(server):
        yield hub
