"""A small server of one stream over real sockets that cuts its connections as it is told."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.reference.native import NativeStream
from tests.unit.client.reading import answer

Cut = Callable[[int], int | None]
"""How many bytes of its body the nth connection brings, None for all."""


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Double:
    """What the server does, and what it was asked."""

    stream: NativeStream
    cut: Cut = lambda _nth: None
    unanswered: int = 0
    """So many connections are closed without an answer."""
    status: int = 200
    held: threading.Event | None = None
    url: str = ""
    requests: list[Asked] = field(default_factory=list)

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Answer nothing until the block ends."""
        self.held = threading.Event()
        try:
            yield
        finally:
            self.held.set()

    def make_handler(self) -> type[BaseHTTPRequestHandler]:
        double = self

        class Handler(BaseHTTPRequestHandler):
            def finish(self) -> None:
                with contextlib.suppress(ConnectionError):  # the client may have gone
                    super().finish()

            def do_GET(self) -> None:
                self._answer(self.headers.get("Last-Event-ID"), b"")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(None, body)

            def _answer(self, last_event_id: str | None, body: bytes) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                double.requests.append(Asked(self.command, self.path, headers, body))
                self.close_connection = True
                if double.held is not None:
                    double.held.wait(30)
                if len(double.requests) <= double.unanswered:
                    return
                if self.path.endswith("/cancel") or double.status != 200:
                    self._refuse(200 if self.path.endswith("/cancel") else double.status)
                    return
                events = answer(double.stream, last_event_id)
                self.send_response(200 if events else 204)
                if events:
                    self.send_header("Content-Type", "text/event-stream")
                    self.send_header("Content-Length", str(len(events)))
                self.send_header("X-Stream-Id", double.stream.stream_id)
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(events[: double.cut(len(double.requests))])

            def _refuse(self, status: int) -> None:
                error = {"message": "told to", "type": "test", "param": None, "code": "told"}
                body = json.dumps({"error": error}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: object) -> None:
                """Say nothing."""

        return Handler


@contextlib.contextmanager
def serving(double: Double) -> Iterator[Double]:
    """Serve until the block ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), double.make_handler()) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        double.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield double
        finally:
            server.shutdown()
            thread.join()
