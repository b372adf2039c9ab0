"""Real servers in their own processes, and what their engines say of themselves."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.ports import free_port as free_port
from tests.waiting import until

MODEL = "smollm2-135m-instruct"
ENGINE = """
[engines.local]
kind = "torch"
model = "smollm2-135m-instruct"
threads = 2
max_batch = 8
kv_tokens = 12288

[models.smollm2-135m-instruct]
routes = [{ engine = "local" }]
timeouts = { first_token_seconds = 280, idle_seconds = 120 }
"""
"""A configuration with a small engine under the name of its model, patient on a busy machine."""
START_SECONDS = 240.0
PATIENCE_SECONDS = 120.0
"""For one answer; a busy machine is not an error."""


@dataclass(frozen=True)
class Server:
    """One running server."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=PATIENCE_SECONDS)

    def ready(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return self.get("/readyz").status_code == 200
        return False

    def metric(self, name: str, **labels: str) -> float:
        """Sum of the samples of this name that carry these labels."""
        families = text_string_to_metric_families(self.get("/metrics").text)
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def workers(self) -> list[int]:
        """Process ids of the Granian workers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]


@contextlib.contextmanager
def serving(
    command: list[str], *, port: int, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Run a server until the block ends; what it printed is shown if it does not start."""
    log = folder / f"server-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "XDG_RUNTIME_DIR": str(folder), **(environment or {})},
        )
    server = Server(process, port, log)
    try:
        until(lambda: process.poll() is not None or server.ready())
        assert process.poll() is None, log.read_text()
        yield server
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and SIGKILL for what does not listen."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def millstream_command(port: int, config: Path | None = None, *more: str) -> list[str]:
    """``millstream serve`` on this port."""
    command = [sys.executable, "-m", "millstream.cli", "serve", "--port", str(port), *more]
    return [*command, "--config", str(config)] if config else command


def granian_command(port: int, *more: str) -> list[str]:
    """The user's own Granian command line."""
    return [
        sys.executable, "-m", "granian", "--interface", "asgi", "--host", "127.0.0.1",
        "--port", str(port), *more, "millstream.asgi:app",
    ]  # fmt: skip
