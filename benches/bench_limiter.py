"""Limiter decisions per second, and the memory of a million keys, beside what else does this.

``python -m benches.bench_limiter`` prints the tables and keeps them in
``benches/results/limiter.md``; ``pytest benches/bench_limiter.py --benchmark-enable`` runs the same
deciders under pytest-benchmark. Each decider has one key and one limit of requests per hour.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Any, NamedTuple

import pytest

from benches.limiter_peers import KEY_FILLERS, PEERS, SUBJECTS, Decide
from benches.resident import resident_bytes
from benches.table import Table

ROUNDS = 9
ROUND_SECONDS = 0.06
BATCH = 50
SINGLE_CALLS = 20_000
KEYS = 1_000_000
NEVER_REACHED = 1_000_000_000
ALWAYS_REACHED = 1
OURS = "millstream take"
PACKAGES = ("limits", "pyrate-limiter", "throttled-py")


class Speed(NamedTuple):
    """Decisions per second of wall time and of CPU time."""

    wall: float
    cpu: float


def run(decide: Decide, seconds: float) -> Speed:
    """Decides for so many seconds."""
    count, cpu, start = 0, time.process_time(), time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        for _ in range(BATCH):
            decide()
        count += BATCH
    return Speed(count / elapsed, count / (time.process_time() - cpu))


def run_threads(decide: Decide, seconds: float) -> Speed:
    """Decides in two threads at once; their decisions together."""
    speeds: list[Speed] = []
    threads = [
        threading.Thread(target=lambda: speeds.append(run(decide, seconds))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = sum(speed.wall for speed in speeds)
    # The clock of CPU time is the process's: each thread also counted the other.
    return Speed(wall, sum(speed.cpu for speed in speeds))


def measure(limit: int, runner: Callable[[Decide, float], Speed]) -> dict[str, Speed]:
    """Medians over rounds in which every subject has its turn."""
    deciders = {name: make(limit) for name, make in SUBJECTS.items()}
    rounds: dict[str, list[Speed]] = {name: [] for name in deciders}
    for _ in range(ROUNDS):
        for name, decide in deciders.items():
            rounds[name].append(runner(decide, ROUND_SECONDS))
    return {
        name: Speed(median(it.wall for it in found), median(it.cpu for it in found))
        for name, found in rounds.items()
    }


def slowest_hundredth(decide: Decide) -> float:
    """The 99th percentile of single calls in microseconds, the timer's own call included."""
    clock = time.perf_counter_ns
    spent = []
    for _ in range(SINGLE_CALLS):
        start = clock()
        decide()
        spent.append(clock() - start)
    return quantiles(spent, n=100)[-1] / 1_000


def decisions() -> Table:
    """The table of speeds; ratios by CPU time, which a busy machine distorts least."""
    admitted = measure(NEVER_REACHED, run)
    refused = measure(ALWAYS_REACHED, run)
    threads = measure(NEVER_REACHED, run_threads)
    columns = ("limiter", "admitted/s", "refused/s", "2 threads/s")
    table = Table(
        "limiter", "Limiter", (*columns, "CPU µs", "p99 µs", "ours ×, admitted", "ours ×, refused")
    )
    for name, make in SUBJECTS.items():
        table.row(
            name,
            f"{admitted[name].wall:,.0f}",
            f"{refused[name].wall:,.0f}",
            f"{threads[name].wall:,.0f}",
            f"{1e6 / admitted[name].cpu:.2f}",
            f"{slowest_hundredth(make(NEVER_REACHED)):.2f}",
            f"{admitted[OURS].cpu / admitted[name].cpu:.1f}",
            f"{refused[OURS].cpu / refused[name].cpu:.1f}",
        )
    fastest = max(PEERS, key=lambda name: admitted[name].cpu)
    fastest_refusing = max(PEERS, key=lambda name: refused[name].cpu)
    table.note(
        f"`{OURS}` decides {admitted[OURS].cpu / admitted[fastest].cpu:.1f} times as often as the"
        f" fastest peer when it admits ({fastest}) and"
        f" {refused[OURS].cpu / refused[fastest_refusing].cpu:.1f} times when it refuses"
        f" ({fastest_refusing}); ratios by CPU time"
    )
    table.note(
        "One key, one limit per hour, in memory, no waiting: never reached (admitted), or used up"
        " by the first call (refused); peers with their default clocks and stores, key resolved"
        " beforehand where they can. No peer has leases: reserve + settle are two calls."
    )
    table.note(f"Medians of {ROUNDS} rounds of {ROUND_SECONDS} s, all limiters in turn")
    return table


def fill(name: str, keys: int) -> None:
    """In a process of its own: prints the memory after minus the memory before."""
    before = resident_bytes()
    start = time.process_time()
    kept = KEY_FILLERS[name](f"tenant:{number}" for number in range(keys))
    spent = time.process_time() - start
    print(resident_bytes() - before, spent)
    del kept


def memory() -> Table:
    """The table of memory, one fresh process each."""
    columns = ("limiter", "MiB", "bytes/key", "CPU µs/key")
    table = Table("limiter", f"Limiter: {KEYS:,} keys, one hit each", columns)
    for name in KEY_FILLERS:
        command = [sys.executable, "-m", "benches.bench_limiter", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        used, spent = done.stdout.split()
        table.row(
            name,
            f"{int(used) / 2**20:.0f}",
            f"{int(used) / KEYS:.0f}",
            f"{float(spent) / KEYS * 1e6:.2f}",
        )
    table.note("millstream keeps a bucket and a window of 16 slots per key, the peers one counter")
    table.note("pyrate-limiter has no keyed store: one bucket per key in a dictionary")
    return table


@pytest.mark.parametrize("limit", [NEVER_REACHED, ALWAYS_REACHED], ids=["admitted", "refused"])
@pytest.mark.parametrize("name", SUBJECTS)
def test_decision(benchmark: Any, name: str, limit: int) -> None:
    benchmark(SUBJECTS[name](limit))


def main() -> None:
    if len(sys.argv) > 1:
        fill(sys.argv[1], KEYS)
        return
    decisions().write(PACKAGES, below=[memory()])


if __name__ == "__main__":
    main()
