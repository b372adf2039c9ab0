"""The log: append, wake and take, beside its twin and a queue of the standard library.

``python -m benches.bench_log`` prints the table and keeps it in ``benches/results/log.md``;
``pytest benches/bench_log.py --benchmark-enable`` runs the same cases under pytest-benchmark.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from benches.resident import resident_bytes
from benches.table import Table
from benches.turns import COLUMNS, add_rows, measure
from millstream import _core
from millstream.streams.hub import Wakeups
from millstream.types import Kind
from tests.reference import log as twin
from tests.reference import sse

BATCH = 16
ROUNDS = 300
PER_ROUND = 20
HAND_OVERS = 400
STREAMS = 5000
TEXTS = ["The", " quick", " brown", " fox", ",", " jumps", ".\n", " Über"] * (BATCH // 8)
OPTIONS: dict[str, Any] = {
    "dialect": "chat",
    "chunk_id": "chatcmpl-0123456789abcdef01234567",
    "model": "smollm2-135m-instruct",
    "created": 1_796_040_000,
}
FRAME = (
    f'data: {{"id":"{OPTIONS["chunk_id"]}","object":"chat.completion.chunk",'
    f'"created":{OPTIONS["created"]},"model":"{OPTIONS["model"]}",'
    '"choices":[{"index":0,"delta":{"content":%s},"logprobs":null,"finish_reason":null}]}\n\n'
)


def frame(text: str) -> bytes:
    """The least that Python can do: one template, and ``json.dumps`` of the text alone."""
    return (FRAME % json.dumps(text)).encode()


def core_case(integrity: bytes | None = None) -> Callable[[], bytes]:
    log = _core.Log(max_bytes=1 << 14, max_records=1 << 10, integrity=integrity)
    reader = _core.Reader(log, _core.Encoder(**OPTIONS).resumed())

    def run() -> bytes:
        for text in TEXTS:
            log.append(1, text, token_count=1, time_ns=1)
        return reader.take()

    return run


def ring_case() -> Callable[[], bytes]:
    ring = _core.RingConsumer.create()
    producer = _core.RingProducer(os.dup(ring.memory_fd()), os.dup(ring.notify_fd()))
    log = _core.Log(max_bytes=1 << 14, max_records=1 << 10)
    reader = _core.Reader(log, _core.Encoder(**OPTIONS).resumed())
    hub = _core.Hub(ring)
    hub.attach(1, log)

    def run() -> bytes:
        for text in TEXTS:
            producer.write(1, 1, text, token_count=1, time_ns=1)
        producer.flush()
        hub.drain()
        return reader.take()

    return run


def twin_case() -> Callable[[], bytes]:
    log = twin.Log(max_bytes=1 << 14, max_records=1 << 10)
    encoder = sse.Encoder(**OPTIONS)
    encoder.writes_roles = False
    reader = twin.Reader(log, encoder)

    def run() -> bytes:
        for text in TEXTS:
            log.append(1, text, token_count=1, time_ns=1)
        return reader.take()

    return run


def queue_case() -> Callable[[], bytes]:
    queue: asyncio.Queue[str] = asyncio.Queue()

    def run() -> bytes:
        for text in TEXTS:
            queue.put_nowait(text)
        return b"".join([frame(queue.get_nowait()) for _ in range(queue.qsize())])

    return run


CASES: dict[str, Callable[[], bytes]] = {
    "log": core_case(),
    "log with CRC and Merkle leaves": core_case(b"strm-0123456789abcdef"),
    "ring, hub and log, both ends here": ring_case(),
    "twin": twin_case(),
    "asyncio.Queue, Python template": queue_case(),
}


async def log_hand_over(count: int) -> None:
    """One task appends a record at a time, another sleeps until it is there."""
    wakeups, log, taken = Wakeups(), _core.Log(), asyncio.Event()
    reader = _core.Reader(log, _core.Encoder(**OPTIONS))

    async def produce() -> None:
        for _ in range(count):
            taken.clear()
            log.append(Kind.TOKEN, " word", token_count=1, time_ns=1)
            await taken.wait()
        log.close("completed", time_ns=1)

    producer = asyncio.create_task(produce())
    while not reader.finished:
        await wakeups.wait(reader)
        reader.take()
        taken.set()
    await producer
    wakeups.close()


async def queue_hand_over(count: int) -> None:
    queue: asyncio.Queue[str | None] = asyncio.Queue()
    taken = asyncio.Event()

    async def produce() -> None:
        for _ in range(count):
            taken.clear()
            queue.put_nowait(" word")
            await taken.wait()
        queue.put_nowait(None)

    producer = asyncio.create_task(produce())
    while (text := await queue.get()) is not None:
        frame(text)
        taken.set()
    await producer


HAND_OVER_CASES: dict[str, Callable[[], None]] = {
    "log, notifier": lambda: asyncio.run(log_hand_over(HAND_OVERS)),
    "asyncio.Queue, Python template": lambda: asyncio.run(queue_hand_over(HAND_OVERS)),
}


@pytest.mark.parametrize("name", CASES)
def test_append_and_take(benchmark: Any, name: str) -> None:
    events = _core.SseParser().feed(benchmark(CASES[name]))
    deltas = [json.loads(event.data)["choices"][0]["delta"] for event in events]
    assert [delta["content"] for delta in deltas] == TEXTS


@pytest.mark.parametrize("name", HAND_OVER_CASES)
def test_hand_over(benchmark: Any, name: str) -> None:
    benchmark(HAND_OVER_CASES[name])


def memory() -> list[str]:
    """What streams cost at rest, by the log's own count and by the process's resident set."""
    encoder, notifier = _core.Encoder(**OPTIONS), _core.Notifier()
    before = resident_bytes()
    logs = [_core.Log() for _ in range(STREAMS)]
    readers = [_core.Reader(log, encoder) for log in logs]
    parked = sum(reader.park(None, notifier) for reader in readers)
    idle = (resident_bytes() - before) // STREAMS
    empty = logs[0].memory_bytes
    for number in range(1000):
        logs[0].append(Kind.TOKEN, "abcd", token_count=1, time_ns=number)
    full = logs[0].memory_bytes
    return [
        f"Memory: {idle} bytes resident for a log with one parked reader ({parked} of them), "
        f"{empty} of it the log; a log of 1,000 tokens of 4 bytes takes {full} bytes.",
        f"Batches of 8 for a mirror: {packed_bytes(None)} bytes for the same 1,000 tokens, "
        f"{packed_bytes(b'strm-0123456789abcdef')} with CRC and Merkle leaves.",
    ]


def packed_bytes(integrity: bytes | None, step_ns: int = 20_000_000) -> int:
    """What 1,000 tokens of 4 bytes take in batches of 8, each with all that a mirror needs."""
    log = _core.Log(integrity=integrity)
    for number in range(1000):
        log.append(Kind.TOKEN, "abcd", token_count=1, time_ns=10**18 + number * step_ns)
    size = after = 0
    while (packed := log.pack(after, max_records=8)) is not None:
        batch, _, after = packed
        size += len(batch)
    return size


def main() -> None:
    """Prints the table and keeps it."""
    table = Table("log", "Stream log, a record", COLUMNS)
    appends = measure(CASES, rounds=ROUNDS, calls=PER_ROUND, events=BATCH)
    add_rows(table, f"{BATCH} appends, one take", appends)
    hand_over = measure(HAND_OVER_CASES, rounds=ROUNDS // 10, calls=1, events=HAND_OVERS)
    add_rows(table, "append, wake, take, one at a time", hand_over)
    table.note("Chat chunks without ids. Ratios are to the first row of a group.")
    table.note("One at a time: both tasks on one asyncio loop, the producer sleeps until taken.")
    for line in memory():
        table.note(line)
    table.write()


if __name__ == "__main__":
    main()
