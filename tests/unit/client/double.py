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


ERROR = {"message": "told to", "type": "test", "param": None, "code": "told"}
REFUSAL = json.dumps({"error": ERROR}).encode()


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
    cancel_status: int = 200
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


class _Server(ThreadingHTTPServer):
    def __init__(self, double: Double) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.double = double


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def finish(self) -> None:
        with contextlib.suppress(ConnectionError):  # the client may have gone
            super().finish()

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    def _answer(self, body: bytes) -> None:
        double = self.server.double
        headers = {name.lower(): value for name, value in self.headers.items()}
        double.requests.append(Asked(self.command, self.path, headers, body))
        self.close_connection = True
        if double.held is not None:
            double.held.wait(30)
        if self.path.endswith("/cancel"):
            self._send(double.cancel_status, REFUSAL, "application/json")
        elif double.status != 200:
            self._send(double.status, REFUSAL, "application/json")
        elif len(double.requests) > double.unanswered:
            self._send_events(double, headers.get("last-event-id"))

    def _send_events(self, double: Double, last_event_id: str | None) -> None:
        events = answer(double.stream, last_event_id)
        most = double.cut(len(double.requests))
        self._send(200 if events else 204, events, "text/event-stream", most)

    def _send(self, status: int, body: bytes, kind: str, most: int | None = None) -> None:
        self.send_response(status)
        if body:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Stream-Id", self.server.double.stream.stream_id)
        with contextlib.suppress(ConnectionError):
            self.end_headers()
            self.wfile.write(body[:most])


@contextlib.contextmanager
def serving(double: Double) -> Iterator[Double]:
    """Serve until the block ends."""
    with _Server(double) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        double.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield double
        finally:
            server.shutdown()
            thread.join()
