"""What the hubs of a worker drop is counted once, over all their lives."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from millstream._core import Log, RingConsumer, RingProducer
from millstream.engines.base import Hub
from millstream.streams.hub import Wakeups
from millstream.streams.hubs import Hubs
from millstream.types import Kind


class Rig:
    """Hubs, and what they report."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, int]] = []
        self.wakeups = Wakeups()
        self.hubs = Hubs(self.wakeups, lambda *report: self.reported.append(report))

    def connect(self, engine: str) -> tuple[Hub, RingProducer]:
        ring = RingConsumer.create(1 << 14)
        producer = RingProducer(os.dup(ring.memory_fd()), os.dup(ring.notify_fd()))
        return self.hubs.of(engine)(ring, lambda _: None, lambda _: None), producer


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    yield made
    made.wakeups.close()


def drop(hub: Hub, producer: RingProducer, records: int) -> None:
    """Write for a request that nobody has attached."""
    for _ in range(records):
        producer.write(9, Kind.FINISH, "stop", token_count=0, time_ns=1)
    producer.flush()
    hub.drain()


async def test_each_record_is_reported_once_under_its_engine(rig: Rig) -> None:
    (one, to_one), (two, to_two) = rig.connect("one"), rig.connect("two")
    drop(one, to_one, 3)
    rig.hubs.sweep(0)
    rig.hubs.sweep(0)
    drop(one, to_one, 2)
    drop(two, to_two, 1)
    rig.hubs.sweep(0)
    assert rig.reported == [("one", 3), ("one", 2), ("two", 1)]
    one.close()
    two.close()


async def test_records_that_reach_a_stream_are_not_reported(rig: Rig) -> None:
    hub, producer = rig.connect("one")
    log = Log()
    hub.attach(9, log)
    drop(hub, producer, 1)
    rig.hubs.sweep(0)
    assert (log.tail, rig.reported) == (1, [])
    hub.close()


async def test_a_connection_that_is_gone_is_counted_to_its_end_and_forgotten(rig: Rig) -> None:
    hub, producer = rig.connect("one")
    drop(hub, producer, 1)
    hub.close()
    rig.hubs.sweep(0)
    rig.hubs.sweep(0)
    assert rig.reported == [("one", 1)]
    assert rig.hubs._reported == {}
