"""A server of the standard library, run in a thread while a block lasts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer


@contextmanager
def served(server: BaseServer) -> Iterator[None]:
    """Serve until the block ends; then nobody is left: the thread is joined and the socket closed."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
