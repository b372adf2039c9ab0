"""A page for a real browser: its server, and Chromium without a window."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import quote

PAGE = Path(__file__).parent / "clients" / "event_source.html"
PATIENCE_SECONDS = 240


@dataclass
class PageServer:
    """Serves the page, cuts connections on its behalf and takes its result."""

    results: SimpleQueue[dict[str, Any]] = field(default_factory=SimpleQueue)
    cut: Callable[[], None] = lambda: None
    origin: str = ""

    @contextlib.contextmanager
    def running(self) -> Iterator[PageServer]:
        with _Server(self) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            self.origin = f"http://127.0.0.1:{server.server_address[1]}"
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()

    def visit(self, folder: Path, task: dict[str, object]) -> dict[str, Any]:
        """What the page makes of ``task`` in Chromium, whose profile is in ``folder``."""
        address = f"{self.origin}/#{quote(json.dumps(task))}"
        with chromium(folder, address):
            try:
                return self.results.get(timeout=PATIENCE_SECONDS)
            except Empty:
                log = (folder / "chromium.log").read_text()
                raise AssertionError(f"no result from the page: {log}") from None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, page: PageServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.page = page


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self._send(PAGE.read_bytes() if self.path == "/" else b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/cut":
            self.server.page.cut()
        else:
            self.server.page.results.put(json.loads(body))
        self._send(b"")

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    def _send(self, body: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)


@contextlib.contextmanager
def chromium(folder: Path, address: str) -> Iterator[None]:
    """Chromium on this page until the block ends."""
    program = shutil.which("chromium")
    assert program, "there is no chromium: make test installs it, or apt-get install chromium"
    command = [
        program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-first-run", "--disable-background-networking", f"--user-data-dir={folder}/profile",
        address,
    ]  # fmt: skip
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
