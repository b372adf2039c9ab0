"""Delivery of many streams at once: server CPU per token, and how late tokens arrive.

    python -m benches.bench_delivery

The server is pinned to one core, the client to the other. Tokens come from a timer in the server
(in Millstream's case through a real ring), so that only delivery differs.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import time
from dataclasses import dataclass

from benches.pinned import connected, cpu_seconds, granian
from benches.stamps import delays_ns
from benches.table import Table

STREAMS, TOKENS, RATE = 400, 250, 50
SUBJECTS = {
    "millstream": "Millstream: ring, log, one take and one send a wake-up",
    "millstream 25": "the same with streams.coalesce_ms = 25",
    "plain": "StreamingResponse over asyncio.Queue, json.dumps",
}


@dataclass(frozen=True)
class Result:
    """One run of one app."""

    cpu_us: float
    p50_ms: float
    p99_ms: float
    tokens: int


def _server(subject: str, port: int) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    app, _, window = subject.partition(" ")
    environment = {
        "BENCH_APP": app,
        "BENCH_COALESCE_MS": window or "0",
        "BENCH_STREAMS": STREAMS,
        "BENCH_TOKENS": TOKENS,
        "BENCH_RATE": RATE,
    }
    return granian("benches.delivery_apps:app", port, environment)


def measure(subject: str, port: int) -> Result:
    """One run: all streams of one subject from first to last token."""
    with _server(subject, port) as process:
        body = b'{"model":"paced","messages":[],"stream":true}'
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        sockets = [connected(port) for _ in range(STREAMS)]
        for one in sockets:
            one.sendall(head.encode() + body)
        time.sleep(0.2)
        before = cpu_seconds(process.pid)
        delays = delays_ns(sockets)
        cpu = cpu_seconds(process.pid) - before
        for one in sockets:
            one.close()
    delays.sort()
    return Result(
        cpu_us=cpu * 1e6 / len(delays),
        p50_ms=statistics.median(delays) / 1e6,
        p99_ms=delays[len(delays) * 99 // 100] / 1e6,
        tokens=len(delays),
    )


def main() -> None:
    """Run the subjects by turns and print the table."""
    os.sched_setaffinity(0, {1})
    runs: dict[str, list[Result]] = {subject: [] for subject in SUBJECTS}
    for turn, subject in enumerate((*SUBJECTS, *reversed(SUBJECTS))):
        runs[subject].append(measure(subject, 18200 + turn))
    table = Table(
        "delivery",
        f"{STREAMS} streams at {RATE} tokens/s, {TOKENS} tokens each; one Granian worker, uvloop",
        ("server", "CPU µs/token", "ratio", "p50 delay ms", "p99 delay ms", "tokens"),
    )
    cpu = {name: statistics.mean(run.cpu_us for run in results) for name, results in runs.items()}
    for subject, results in runs.items():
        table.row(
            SUBJECTS[subject],
            f"{cpu[subject]:.1f}",
            f"{cpu[subject] / cpu['plain']:.2f}",
            f"{statistics.mean(run.p50_ms for run in results):.1f}",
            f"{statistics.mean(run.p99_ms for run in results):.1f}",
            str(sum(run.tokens for run in results)),
        )
    table.note("every token of every stream arrived; two runs of each, in turns")
    table.write(packages=("granian", "fastapi", "starlette", "uvloop"))


if __name__ == "__main__":
    main()
