"""Reading a stream again, many readers of one stream, and what a kept stream costs.

    python -m benches.bench_resume

The server is pinned to one core, the client to the other; the peers keep a list of event objects
and give every live reader an ``asyncio.Queue``.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import subprocess
import time
import tracemalloc
from dataclasses import dataclass

from benches.pinned import connected, cpu_seconds, granian
from benches.resident import resident_bytes
from benches.stamps import END, delays_ns
from benches.table import Table
from millstream._core import Log
from millstream.store.descriptor import BranchDescriptor, Descriptor
from millstream.store.recording import Recording
from millstream.types import Kind

READERS, LIVE_TOKENS, RATE = 1000, 100, 20
TOKENS, RESUMES = 1000, 400
IDLE_STREAMS = 5000
SUBJECTS = {
    "millstream": "Millstream: one log, a cursor a reader",
    "plain": "StreamingResponse over a list or a queue, json.dumps",
    "sse-starlette": "EventSourceResponse over the same",
}


def server(subject: str, port: int) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    """One of the apps."""
    environment = {
        "BENCH_APP": subject,
        "BENCH_READERS": READERS,
        "BENCH_TOKENS": TOKENS,
        "BENCH_LIVE_TOKENS": LIVE_TOKENS,
        "BENCH_RATE": RATE,
    }
    return granian("benches.resume_apps:app", port, environment)


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n".encode()


# --- reading again -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Resumed:
    """Times of one resumption in milliseconds."""

    first_ms: float
    whole_ms: float


def resume(connection: socket.socket, after: int) -> Resumed:
    """Read the finished stream on from a cursor, on a connection that is open already."""
    start = time.perf_counter_ns()
    connection.sendall(_get(f"/finished?after={after}"))
    seen, first = b"", 0
    while not seen.endswith(END):
        seen += connection.recv(1 << 16)
        if not first and b"id: 1-" in seen:
            first = time.perf_counter_ns()
    end = time.perf_counter_ns()
    assert b"id: 1-%d\n" % (after + 1) in seen
    assert b"id: 1-%d\n" % after not in seen
    return Resumed((first - start) / 1e6, (end - start) / 1e6)


def resumption(table: Table, first_port: int) -> None:
    """A row a subject and a cut point."""
    for after in (TOKENS - 10, 0):
        base: float | None = None
        for turn, (subject, name) in enumerate(SUBJECTS.items()):
            with server(subject, first_port + turn) as process:
                connection = connected(first_port + turn)
                for _ in range(20):
                    resume(connection, after)
                before = cpu_seconds(process.pid)
                runs = [resume(connection, after) for _ in range(RESUMES)]
                cpu_us = (cpu_seconds(process.pid) - before) * 1e6 / RESUMES
                connection.close()
            whole = statistics.median(run.whole_ms for run in runs)
            base = base or whole
            table.row(
                name,
                str(TOKENS - after),
                f"{statistics.median(run.first_ms for run in runs):.2f}",
                f"{whole:.2f}",
                f"{sorted(run.whole_ms for run in runs)[RESUMES * 99 // 100]:.2f}",
                f"{cpu_us:.0f}",
                f"{whole / base:.1f}",
            )
        first_port += len(SUBJECTS)


# --- many readers --------------------------------------------------------------------------------


def readers(table: Table, first_port: int) -> None:
    """A row a subject: all readers follow one live stream."""
    base: float | None = None
    for turn, (subject, name) in enumerate(SUBJECTS.items()):
        with server(subject, first_port + turn) as process:
            sockets = [connected(first_port + turn) for _ in range(READERS)]
            for one in sockets:
                one.sendall(_get("/live"))
            time.sleep(0.3)
            before = cpu_seconds(process.pid)
            delays = delays_ns(sockets)
            cpu_us = (cpu_seconds(process.pid) - before) * 1e6 / len(delays)
            for one in sockets:
                one.close()
        delays.sort()
        base = base or cpu_us
        table.row(
            name,
            str(len(delays)),
            f"{cpu_us:.1f}",
            f"{cpu_us / base:.1f}",
            f"{statistics.median(delays) / 1e6:.1f}",
            f"{delays[len(delays) * 99 // 100] / 1e6:.1f}",
        )


# --- memory --------------------------------------------------------------------------------------


def recording(number: int, *, integrity: bool = False) -> Recording:
    """A stream as it is kept."""
    stream_id = f"stream{number:018d}"
    branch = BranchDescriptor(model="m", chunk_id=f"chatcmpl-{stream_id}")
    descriptor = Descriptor(
        id=stream_id, route="chat.completion", dialect="chat", created=1, branches=(branch,)
    )
    return Recording(descriptor, Log(integrity=stream_id.encode() if integrity else None))


def fill(log: Log, tokens: int) -> None:
    """Tokens of about four bytes."""
    for number in range(tokens):
        log.append(Kind.TOKEN, f" t{number % 100:02d}", token_count=1, time_ns=number)


def memory(table: Table) -> None:
    """Rows for an idle stream and for 1,000 tokens."""
    before = resident_bytes()
    idle = [recording(number) for number in range(IDLE_STREAMS)]
    table.row(
        "an idle stream (descriptor and log)", f"{(resident_bytes() - before) / len(idle):.0f}", ""
    )
    for name, integrity in (("1,000 tokens in a log", False), ("the same with integrity", True)):
        kept = recording(0, integrity=integrity)
        fill(kept.log, 1000)
        table.row(
            name, f"{kept.log.memory_bytes:,}", f"{kept.log.memory_bytes / kept.log.bytes:.1f}"
        )
    for name, size in (
        ("1,000 tokens as encoded frames in a list", _traced(_frames)),
        ("1,000 tokens as event objects in a list", _traced(_events)),
    ):
        table.row(name, f"{size:,}", f"{size / (1000 * len(' t00')):.1f}")


def _traced(make: object) -> int:
    assert callable(make)
    tracemalloc.start()
    held = make()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held
    return size


def _event(number: int) -> dict[str, object]:
    choice = {"index": 0, "delta": {"content": f" t{number % 100:02d}"}, "finish_reason": None}
    return {"id": "chatcmpl-0", "created": 1, "model": "m", "choices": [choice]}


def _events() -> list[dict[str, object]]:
    return [_event(number) for number in range(1000)]


def _frames() -> list[bytes]:
    return [f"data: {json.dumps(_event(number))}\n\n".encode() for number in range(1000)]


def main() -> None:
    """Measure and print the tables."""
    os.sched_setaffinity(0, {1})
    again = Table(
        "resume",
        f"Resuming a finished stream of {TOKENS} tokens; one Granian worker, uvloop",
        ("server", "tokens read", "first ms", "whole ms", "p99 whole ms", "CPU µs", "ratio whole"),
    )
    resumption(again, 18400)
    many = Table(
        "resume",
        f"{READERS} readers of one live stream, {LIVE_TOKENS} tokens at {RATE}/s",
        ("server", "frames", "CPU µs/frame", "ratio", "p50 delay ms", "p99 delay ms"),
    )
    readers(many, 18420)
    size = Table("resume", "Memory of a kept stream", ("what", "bytes", "bytes per byte of text"))
    memory(size)
    again.write(("granian", "uvloop", "sse-starlette", "starlette"), below=(many, size))


if __name__ == "__main__":
    main()
