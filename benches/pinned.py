"""A server on one core, for a client on another."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping


@contextlib.contextmanager
def granian(
    app: str, port: int, environment: Mapping[str, object]
) -> Iterator[subprocess.Popen[bytes]]:
    """An app under Granian on core 0, with these variables beside those that are set."""
    variables = {name: str(value) for name, value in environment.items()}
    command = [
        "taskset", "-c", "0", sys.executable, "-m", "granian", "--interface", "asgi",
        "--loop", "uvloop", "--port", str(port), "--backpressure", "2048", "--no-log", app,
    ]  # fmt: skip
    process = subprocess.Popen(command, env={**os.environ, **variables})
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def connected(port: int) -> socket.socket:
    """A connection, as soon as somebody listens."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its children."""
    total = 0.0
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        pids = [pid, *map(int, children.read().split())]
    for one in pids:
        with open(f"/proc/{one}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total
