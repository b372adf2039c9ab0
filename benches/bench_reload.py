"""How soon changed settings take effect, and what a running stream sees of it.

    python -m benches.bench_reload

One worker under Granian on core 0, with a stream of a token every 5 ms through it; the client, who
asks for the tenant's models again and again over one connection, on core 1, and so is Valkey.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benches.pinned import connected, granian
from benches.table import Table
from tests.integration.valkey_server import ValkeyServer

CHANGES = 100
IDLE_SECONDS = 5.0
MODELS = ("m", "n")
KEY = "millstream:config"
BODY = json.dumps({"model": "m", "prompt": "a", "max_tokens": 50, "stream": True}).encode()


def configuration(number: int, tenants: int) -> str:
    """Odd and even ones differ in what the tenant `asks` may use; all differ in a comment."""
    models = "".join(f'[models.{name}]\nroutes = [{{ engine = "local" }}]\n' for name in MODELS)
    others = "".join(
        f"[tenants.t{index}]\nlimits = {{ requests = {{ per_second = {index + 1} }}, "
        "concurrency = 8 }\n"
        for index in range(tenants)
    )
    return (
        f'# {number}\n[audit]\nkind = "off"\n[auth]\ntenant_from = ["header"]\n'
        f'{models}[tenants.asks]\nmodels = ["{MODELS[number % 2]}"]\n{others}'
    )


@dataclass
class Stream:
    """Reads a stream in a thread, and keeps the longest time between two pieces of it."""

    port: int
    gaps: list[float] = field(default_factory=list)
    cut: bool = False

    def __post_init__(self) -> None:
        self._socket = connected(self.port)
        head = (
            "POST /v1/completions HTTP/1.1\r\nhost: h\r\nx-tenant-id: streams\r\n"
            f"content-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + BODY)
        self._over = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        last = 0.0
        while not self._over:
            try:
                piece = self._socket.recv(65536)
            except OSError:
                break
            now = time.perf_counter()
            if not piece:
                self.cut = not self._over
                break
            if last:
                self.gaps.append(now - last)
            last = now

    def close(self) -> None:
        """Leave."""
        self._over = True
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


class Asker:
    """Asks for the models of the tenant until the answer is another one."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self.asked: list[float] = []

    def held(self) -> list[float]:
        """Seconds for which the worker's loop was held at the longest, since it was asked last, and
        how many of them the worker has worked.
        """
        self._connection.request("GET", "/held", headers={"x-tenant-id": "asks"})
        return [float(seconds) for seconds in json.loads(self._connection.getresponse().read())]

    def models(self) -> str:
        """Which model the tenant may use now."""
        begun = time.perf_counter()
        self._connection.request("GET", "/v1/models", headers={"x-tenant-id": "asks"})
        listed = json.loads(self._connection.getresponse().read())["data"]
        self.asked.append(time.perf_counter() - begun)
        return str(listed[0]["id"])

    def until(self, model: str, since: float) -> float:
        """Seconds from ``since`` until the first answer with this model has come."""
        deadline = since + 10
        while self.models() != model:
            if time.perf_counter() > deadline:
                raise TimeoutError("the change has no effect")
        return time.perf_counter() - since


@dataclass
class Measured:
    """What one way of changing the settings came to; times in seconds."""

    effects: list[float]
    gaps: list[float]
    held: list[float]
    asked: list[float]


@contextmanager
def server(folder: Path, tenants: int, valkey: ValkeyServer) -> Iterator[tuple[int, Path]]:
    """A worker that follows a file and a Valkey."""
    file = folder / "millstream.toml"
    file.write_text(_with_streams(configuration(0, tenants)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "MILLSTREAM_CONFIG": file,
        "MILLSTREAM__RELOAD__URL": valkey.url,
        "MILLSTREAM__LOG__LEVEL": "warning",
    }
    with granian("benches.reload_app:app", port, environment):
        connected(port).close()
        yield port, file


def _with_streams(text: str) -> str:
    return f"{text}[tenants.streams]\n"


def measured(port: int, tenants: int, change: Callable[[str], float]) -> Measured:
    """Change the settings again and again under a stream; ``change`` returns when it began."""
    asker, stream = Asker(port), Stream(port)
    current = MODELS.index(asker.models())
    effects = []
    time.sleep(0.5)
    stream.gaps.clear()
    asker.held()
    for number in range(CHANGES):
        wanted = current + 1 + number
        begun = change(_with_streams(configuration(wanted, tenants)))
        effects.append(asker.until(MODELS[wanted % 2], begun))
        # Not in step with anybody's timer.
        time.sleep(0.05 + 0.0037 * (number % 13))
    gaps, held = list(stream.gaps), asker.held()
    if stream.cut:
        raise RuntimeError("the stream was cut")
    stream.close()
    return Measured(effects, gaps, held, asker.asked)


def idle(port: int) -> Measured:
    """The same while nothing changes and the asker asks."""
    asker, stream = Asker(port), Stream(port)
    time.sleep(0.5)
    stream.gaps.clear()
    asker.held()
    deadline = time.perf_counter() + IDLE_SECONDS
    while time.perf_counter() < deadline:
        asker.models()
    gaps, held = list(stream.gaps), asker.held()
    stream.close()
    return Measured([], gaps, held, asker.asked)


def publishing(valkey: ValkeyServer) -> Callable[[str], float]:
    """Stores a document and tells of it, as `millstream config push` does."""

    def change(text: str) -> float:
        stored = json.dumps({"written_ns": time.time_ns(), "toml": text}).encode()
        pipe = valkey.client.pipeline(transaction=True)
        pipe.set(KEY, stored)
        pipe.publish(KEY, "1")
        begun = time.perf_counter()
        pipe.execute()
        return begun

    return change


def renaming(file: Path) -> Callable[[str], float]:
    """Writes a new file and renames it over the old one."""

    def change(text: str) -> float:
        new = file.with_suffix(".new")
        new.write_text(text)
        begun = time.perf_counter()
        new.replace(file)
        return begun

    return change


def milliseconds(seconds: float) -> str:
    """With two digits behind the point."""
    return f"{seconds * 1000:.2f}"


def rows(table: Table, tenants: int, valkey: ValkeyServer) -> None:
    """Both ways, with so many tenants in the configuration."""
    with tempfile.TemporaryDirectory() as folder, server(Path(folder), tenants, valkey) as running:
        port, file = running
        still = idle(port)
        ways = {
            "message (`PUBLISH`) → effect": publishing(valkey),
            "file (renamed) → effect": renaming(file),
        }
        for name, change in ways.items():
            found = measured(port, tenants, change)
            effects = sorted(found.effects)
            table.row(
                name,
                str(tenants + 2),
                str(len(effects)),
                milliseconds(statistics.median(effects)),
                milliseconds(effects[int(len(effects) * 0.99)]),
                milliseconds(effects[-1]),
                str(sum(effect > 0.1 for effect in effects)),
                " / ".join(map(milliseconds, found.held)),
                " / ".join(map(milliseconds, still.held)),
                milliseconds(max(found.gaps)),
                milliseconds(max(still.gaps)),
                milliseconds(statistics.median(found.asked)),
            )


def main() -> None:
    """Run everything and print the table."""
    os.sched_setaffinity(0, {1})
    table = Table(
        "reload",
        "Reloading: from a change to the first answer by it, with a stream running through it",
        (
            "way", "tenants", "changes", "p50 ms", "p99 ms", "max ms", "over 100 ms",
            "loop held / its CPU ms", "without changes ms",
            "stream's longest gap ms", "without changes ms",
            "one answer ms",
        ),
    )  # fmt: skip
    valkey = ValkeyServer()
    try:
        for tenants in (0, 1000):
            rows(table, tenants, valkey)
    finally:
        valkey.close()
    table.note(
        "A change is an atomic rename, or `SET` and `PUBLISH` in one `MULTI`; its effect is the "
        "first answer of `GET /v1/models` that lists the tenant's other model, so it includes the "
        "answer's own time."
    )
    table.note(
        "The file is looked for every 10 ms, and taken when it has not been written to for 20 ms; "
        "in the file's rows its change is also published and heard of again."
    )
    table.note("The loop is held as long as a timer of every millisecond is late at worst.")
    table.note(
        "The stream has a token every 5 ms, and is the same one through all changes of a row."
    )
    table.write(("watchfiles", "valkey", "granian", "uvloop"))


if __name__ == "__main__":
    main()
