"""Limiter decisions per second, and the memory of a million keys, beside what else does this.

``python -m benches.bench_limiter`` prints the tables and keeps them in
``benches/results/limiter.md``; ``pytest benches/bench_limiter.py --benchmark-enable`` runs the same
deciders under pytest-benchmark. Each decider has one key and one limit of requests per hour.
LiteLLM takes part where ``LITELLM_PYTHON`` names an interpreter that has it, the core without
Python where there is cargo.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from statistics import median, quantiles
from typing import Any, NamedTuple

import pytest

from benches import limiter_litellm
from benches.limiter_litellm import LiteLLM
from benches.limiter_peers import KEY_FILLERS, SUBJECTS, Decide
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
PACKAGES = ("limits", "pyrate-limiter", "slowapi", "throttled-py")
THREADS = (2, 4)


class Speed(NamedTuple):
    """Decisions per second of wall time and of CPU time."""

    wall: float
    cpu: float


def run(decide: Decide, seconds: float) -> int:
    """Decides for so many seconds; how often."""
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(BATCH):
            decide()
        count += BATCH
    return count


def run_threads(decide: Decide, threads: int) -> Speed:
    """Decides in so many threads at once; their decisions together, until the last has ended."""
    counts: list[int] = []
    ready = threading.Barrier(threads + 1)

    def work() -> None:
        ready.wait()
        counts.append(run(decide, ROUND_SECONDS))

    started = [threading.Thread(target=work) for _ in range(threads)]
    for thread in started:
        thread.start()
    ready.wait()
    cpu, start = time.process_time(), time.perf_counter()
    for thread in started:
        thread.join()
    wall = time.perf_counter() - start
    return Speed(sum(counts) / wall, sum(counts) / (time.process_time() - cpu))


def measure(limit: int, litellm: LiteLLM | None = None, *, threads: int = 1) -> dict[str, Speed]:
    """Medians over rounds in which every subject has its turn."""
    deciders = {name: make(limit) for name, make in SUBJECTS.items()}
    rounds: dict[str, list[Speed]] = {name: [] for name in deciders}
    remote = limiter_litellm.SUBJECTS if litellm else {}
    rounds |= {name: [] for name in remote}
    for _ in range(ROUNDS):
        for name, decide in deciders.items():
            rounds[name].append(run_threads(decide, threads))
        for name in remote:
            assert litellm is not None
            wall, cpu, _ = litellm.speed(name, limit, ROUND_SECONDS)
            rounds[name].append(Speed(wall, cpu))
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


def decisions(litellm: LiteLLM | None) -> Table:
    """The table of speeds; ratios by CPU time, which a busy machine distorts least."""
    admitted = measure(NEVER_REACHED, litellm)
    refused = measure(ALWAYS_REACHED, litellm)
    many = [measure(NEVER_REACHED, threads=threads) for threads in THREADS]
    columns = ("limiter", "admitted/s", "refused/s", *(f"{it} threads/s" for it in THREADS))
    table = Table(
        "limiter", "Limiter", (*columns, "CPU µs", "p99 µs", "ours ×, admitted", "ours ×, refused")
    )
    for name, speed in admitted.items():
        table.row(
            name,
            f"{speed.wall:,.0f}",
            f"{refused[name].wall:,.0f}",
            *(f"{speeds[name].wall:,.0f}" if name in speeds else "–" for speeds in many),
            f"{1e6 / speed.cpu:.2f}",
            f"{slowest(name, litellm):.2f}",
            f"{admitted[OURS].cpu / speed.cpu:.1f}",
            f"{refused[OURS].cpu / refused[name].cpu:.1f}",
        )
    peers = [name for name in admitted if not name.startswith(("millstream", "twin"))]
    fastest = max(peers, key=lambda name: admitted[name].cpu)
    fastest_refusing = max(peers, key=lambda name: refused[name].cpu)
    table.note(
        f"`{OURS}` decides {admitted[OURS].cpu / admitted[fastest].cpu:.1f} times as often as the"
        f" fastest peer when it admits ({fastest}) and"
        f" {refused[OURS].cpu / refused[fastest_refusing].cpu:.1f} times when it refuses"
        f" ({fastest_refusing}); ratios by CPU time"
    )
    for text in notes(litellm):
        table.note(text)
    return table


def slowest(name: str, litellm: LiteLLM | None) -> float:
    """The 99th percentile of a subject, wherever it runs."""
    if name in SUBJECTS:
        return slowest_hundredth(SUBJECTS[name](NEVER_REACHED))
    assert litellm is not None
    return litellm.speed(name, NEVER_REACHED, ROUND_SECONDS)[2]


def notes(litellm: LiteLLM | None) -> Iterator[str]:
    yield (
        "One key, one limit per hour, in memory, no waiting: never reached (admitted), or used up"
        " by the first call (refused); peers with their default clocks and stores, key resolved"
        " beforehand where they can. No peer in this process has leases: reserve + settle are two"
        " calls."
    )
    yield (
        "Threads share Python's one lock: what they decide together shows what they lose to each"
        " other, not what the limiter could do in parallel"
    )
    yield "slowapi by its decorator on an endpoint that does nothing, one request for all calls"
    if litellm is None:
        yield f"LiteLLM left out: {limiter_litellm.VARIABLE} names no interpreter that has it"
    else:
        yield (
            f"LiteLLM {litellm.version}: its proxy's parallel_request_limiter_v3 on an in-memory"
            " cache, awaited in a process of its own; it counts a request that its tokens then"
            " refuse, and a refusal with tokens ends at the requests"
        )
    yield f"Medians of {ROUNDS} rounds of {ROUND_SECONDS} s, all limiters in turn"


def core_threads() -> list[Table]:
    """The table of the core alone, without Python; none where it cannot be built."""
    cargo = shutil.which("cargo")
    if cargo is None:
        return []
    command = [cargo, "run", "--quiet", "--release", "--package", "millstream-core"]
    command += ["--example", "limiter_threads"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = [[int(cell) for cell in line.split()] for line in done.stdout.splitlines()]
    columns = ("threads", "one key/s", "own keys/s", "one key ×", "own keys ×")
    table = Table("limiter", "Limiter: the core alone, take", columns)
    for threads, shared, own in rows:
        ratios = (f"{shared / rows[0][1]:.2f}", f"{own / rows[0][2]:.2f}")
        table.row(str(threads), f"{shared:,}", f"{own:,}", *ratios)
    table.note(f"`{' '.join(['cargo', *command[1:]])}`; × compares with one thread")
    return [table]


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
    litellm = limiter_litellm.found()
    table = decisions(litellm)
    if litellm is not None:
        litellm.close()
    table.write(PACKAGES, below=[*core_threads(), memory()])


if __name__ == "__main__":
    main()
