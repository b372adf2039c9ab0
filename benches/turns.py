"""Costs of several cases that take turns, so that a busy machine is busy for all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from benches.table import Table

COLUMNS = ("case", "median µs", "p99 µs", "CPU µs", "median ratio", "CPU ratio")


class Cost(NamedTuple):
    """Microseconds an event."""

    median: float
    p99: float
    cpu: float


def measure(
    cases: Mapping[str, Callable[[], object]], *, rounds: int, calls: int, events: int
) -> dict[str, Cost]:
    """Costs by case over ``rounds`` turns of ``calls`` calls, each of which makes ``events``."""
    walls: dict[str, list[float]] = {name: [] for name in cases}
    cpus = dict.fromkeys(cases, 0.0)
    for _ in range(rounds):
        for name, case in cases.items():
            case()  # warms the caches that the case before has filled with its own
            cpu, wall = time.process_time_ns(), time.perf_counter_ns()
            for _ in range(calls):
                case()
            wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
            walls[name].append(wall / (1000 * calls * events))
            cpus[name] += cpu / (1000 * calls * events * rounds)
    return {
        name: Cost(statistics.median(costs), statistics.quantiles(costs, n=100)[-1], cpus[name])
        for name, costs in walls.items()
    }


def add_rows(table: Table, group: str, costs: Mapping[str, Cost]) -> None:
    """A row a case in `COLUMNS`; ratios are to the first case of the group."""
    base = next(iter(costs.values()))
    for name, cost in costs.items():
        table.row(
            f"{group}: {name}",
            f"{cost.median:.3f}",
            f"{cost.p99:.3f}",
            f"{cost.cpu:.3f}",
            f"{cost.median / base.median:.1f}",
            f"{cost.cpu / base.cpu:.1f}",
        )
