"""A server on this machine that answers what a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

Answer = tuple[int, str]


@contextmanager
def local_server(answer: Callable[[str], Answer]) -> Iterator[int]:
    """Serves ``answer(path)`` while the block runs; yields the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = answer(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
