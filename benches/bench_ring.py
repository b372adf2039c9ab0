"""Records from a producer to an event loop: the ring beside the queues of the standard library.

``python -m benches.bench_ring`` prints the table and keeps it in ``benches/results/ring.md``;
``pytest benches/bench_ring.py --benchmark-enable`` runs the same transfers under pytest-benchmark.
Every transfer hands over the same six fields a record and ends in Python objects.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from benches.table import Table
from millstream._core import Emitter, RingConsumer, RingProducer, Vocabulary
from millstream.types import Kind

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

BATCH = 32
TEXT = " token"
ROUNDS = 7
FULL_SPEED_BATCHES = 2000
PACED_BATCHES = 250
PACE_NS = 2_000_000

Item = tuple[int, int, int, int, int, str]
Send = Callable[[list[Item]], None]
_FORK = multiprocessing.get_context("fork")


@dataclass
class Sample:
    """One run of one transfer."""

    records: int = 0
    delays_ns: list[int] = field(default_factory=list)
    wall_ns: int = 0
    cpu_ns: int = 0

    def take(self, records: list[Item]) -> None:
        """Count records that have arrived; the delay is that of a batch's last record."""
        self.records += len(records)
        if self.records % BATCH == 0:
            self.delays_ns.append(time.monotonic_ns() - records[-1][1])


@dataclass(frozen=True)
class Plan:
    """How many batches a producer sends, and how far apart."""

    batches: int
    pace_ns: int = 0

    @property
    def records(self) -> int:
        return self.batches * BATCH

    def run(self, send: Send) -> None:
        """Send every batch, stamped with the time at which it is made."""
        due = time.monotonic_ns()
        for _ in range(self.batches):
            due += self.pace_ns
            while self.pace_ns and (left := due - time.monotonic_ns()) > 0:
                time.sleep(left / 1e9)
            now = time.monotonic_ns()
            send([(stream, now, Kind.TOKEN, 0, 1, TEXT) for stream in range(BATCH)])


def ring_sender(ring: RingProducer) -> Send:
    """One write a record, one flush a batch: what the engine does in a step."""

    def send(records: list[Item]) -> None:
        for stream, time_ns, kind, choice, count, text in records:
            ring.write(stream, kind, text, choice=choice, token_count=count, time_ns=time_ns)
        ring.flush()

    return send


def step_sender(ring: RingProducer) -> Send:
    """One emitter step a batch: the engine's own way, token ids in, text made in Rust."""
    emitter = Emitter(Vocabulary([TEXT.encode()]))
    slots = [emitter.open(ring, stream, 0, []) for stream in range(BATCH)]
    ids = [0] * BATCH

    def send(records: list[Item]) -> None:
        emitter.step(slots, ids, records[0][1])
        ring.flush()

    return send


async def receive_ring(ring: RingConsumer, expected: int, sample: Sample) -> None:
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def drain() -> None:
        if records := ring.drain():
            sample.take(records)
        if sample.records >= expected and not done.done():
            done.set_result(None)

    loop.add_reader(ring.fileno(), drain)
    await done
    loop.remove_reader(ring.fileno())


def new_ring() -> tuple[RingConsumer, RingProducer]:
    consumer = RingConsumer.create()
    return consumer, RingProducer(os.dup(consumer.memory_fd()), os.dup(consumer.notify_fd()))


def ring_from_thread(plan: Plan, sender: Callable[[RingProducer], Send]) -> Sample:
    """The ring, its producer in a thread."""
    sample = Sample()
    consumer, producer = new_ring()
    thread = threading.Thread(target=plan.run, args=(sender(producer),))
    with Measured(sample):
        thread.start()
        asyncio.run(receive_ring(consumer, plan.records, sample))
        thread.join()
    return sample


def queue_from_thread(plan: Plan, *, batched: bool) -> Sample:
    """``asyncio.Queue`` fed by ``call_soon_threadsafe``, a call for each record or batch."""
    sample = Sample()

    async def receive() -> None:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[list[Item]] = asyncio.Queue()

        def send(records: list[Item]) -> None:
            for part in [records] if batched else [[record] for record in records]:
                loop.call_soon_threadsafe(queue.put_nowait, part)

        thread = threading.Thread(target=plan.run, args=(send,))
        thread.start()
        while sample.records < plan.records:
            sample.take(await queue.get())
        thread.join()

    with Measured(sample):
        asyncio.run(receive())
    return sample


def ring_from_process(plan: Plan, sender: Callable[[RingProducer], Send]) -> Sample:
    """The ring, its producer in another process."""
    sample = Sample()
    consumer, producer = new_ring()

    def receive() -> None:
        asyncio.run(receive_ring(consumer, plan.records, sample))

    return across(sample, lambda: plan.run(sender(producer)), receive)


def queue_from_process(plan: Plan, *, batched: bool) -> Sample:
    """``multiprocessing.Queue``, a put for each record or batch, read by blocking gets."""
    sample = Sample()
    queue: Any = _FORK.Queue()

    def send(records: list[Item]) -> None:
        for part in [records] if batched else [[record] for record in records]:
            queue.put(part)

    def produce() -> None:
        plan.run(send)
        queue.close()
        queue.join_thread()

    def receive() -> None:
        while sample.records < plan.records:
            sample.take(queue.get())

    return across(sample, produce, receive)


def across(sample: Sample, produce: Callable[[], None], receive: Callable[[], None]) -> Sample:
    """Run both ends in two processes and add the child's CPU time to ours."""
    ours, theirs = _FORK.Pipe()

    def child() -> None:
        theirs.recv()
        before = time.process_time_ns()
        produce()
        theirs.send(time.process_time_ns() - before)

    process = _FORK.Process(target=child)
    process.start()
    with Measured(sample):
        ours.send(None)
        receive()
    sample.cpu_ns += ours.recv()
    process.join()
    return sample


class Measured:
    """Adds wall and CPU time of the block to a sample."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample

    def __enter__(self) -> None:
        self._wall, self._cpu = time.monotonic_ns(), time.process_time_ns()

    def __exit__(self, *_: object) -> None:
        self._sample.wall_ns += time.monotonic_ns() - self._wall
        self._sample.cpu_ns += time.process_time_ns() - self._cpu


TRANSFERS: dict[str, dict[str, Callable[[Plan], Sample]]] = {
    "thread": {
        "ring, write a record": partial(ring_from_thread, sender=ring_sender),
        "ring, Emitter.step a batch": partial(ring_from_thread, sender=step_sender),
        "asyncio.Queue, call_soon_threadsafe a record": partial(queue_from_thread, batched=False),
        "asyncio.Queue, call_soon_threadsafe a batch": partial(queue_from_thread, batched=True),
    },
    "process": {
        "ring, write a record": partial(ring_from_process, sender=ring_sender),
        "ring, Emitter.step a batch": partial(ring_from_process, sender=step_sender),
        "multiprocessing.Queue, put a record": partial(queue_from_process, batched=False),
        "multiprocessing.Queue, put a batch": partial(queue_from_process, batched=True),
    },
}
CASES = [
    pytest.param(transfer, id=f"{border}: {name}")
    for border, transfers in TRANSFERS.items()
    for name, transfer in transfers.items()
]


@pytest.mark.parametrize("transfer", CASES)
def test_transfer(benchmark: BenchmarkFixture, transfer: Callable[[Plan], Sample]) -> None:
    plan = Plan(batches=200)
    sample = benchmark.pedantic(transfer, args=(plan,), rounds=3)  # type: ignore[no-untyped-call]
    assert sample.records == plan.records


@dataclass(frozen=True)
class Summary:
    """Medians over the runs of one transfer; the producer is paced for the delays."""

    records_per_second: float
    cpu_ns: float
    p50_us: float
    p99_us: float


def summaries(transfers: dict[str, Callable[[Plan], Sample]]) -> Iterator[tuple[str, Summary]]:
    """Runs all transfers by turns, so that a slow moment of the machine meets each of them."""
    fast: dict[str, list[Sample]] = {name: [] for name in transfers}
    paced: dict[str, list[Sample]] = {name: [] for name in transfers}
    for _ in range(ROUNDS):
        for name, transfer in transfers.items():
            fast[name].append(transfer(Plan(FULL_SPEED_BATCHES)))
            paced[name].append(transfer(Plan(PACED_BATCHES, PACE_NS)))
    for name in transfers:
        delays = sorted(delay for sample in paced[name] for delay in sample.delays_ns)
        yield (
            name,
            Summary(
                statistics.median(run.records / run.wall_ns * 1e9 for run in fast[name]),
                statistics.median(run.cpu_ns / run.records for run in fast[name]),
                statistics.median(delays) / 1e3,
                delays[len(delays) * 99 // 100] / 1e3,
            ),
        )


def main() -> None:
    """Print the table and keep it."""
    columns = ("border", "transfer", "records/s", "ratio", "CPU ns/record", "ratio")
    table = Table(
        "ring",
        f"Records handed to an event loop, {BATCH} a batch, one signal a batch",
        (*columns, "p50 delay µs", "p99 delay µs"),
    )
    for border, transfers in TRANSFERS.items():
        results = dict(summaries(transfers))
        ring = results["ring, write a record"]
        for name, result in results.items():
            table.row(
                border,
                name,
                f"{result.records_per_second:,.0f}",
                f"{result.records_per_second / ring.records_per_second:.2f}",
                f"{result.cpu_ns:,.0f}",
                f"{result.cpu_ns / ring.cpu_ns:.2f}",
                f"{result.p50_us:,.0f}",
                f"{result.p99_us:,.0f}",
            )
    table.note(
        f"{ROUNDS} runs of {FULL_SPEED_BATCHES * BATCH:,} records by turns, medians; CPU of both "
        "ends together. Delays of a batch's last record at one batch every "
        f"{PACE_NS // 1_000_000} ms. Ratios to the first row of a border."
    )
    table.note(
        "The ring's rows end in a list of tuples, as the queues do; the server's hub drains into "
        "the logs without any. A list passed between threads is not copied at all, so a call a "
        "batch beats any queue there; but it cannot leave the engine's process."
    )
    table.note("asyncio's own event loop; multiprocessing.Queue is read by blocking gets, no loop.")
    table.write()


if __name__ == "__main__":
    main()
