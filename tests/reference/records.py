"""Records taken from a ring, and the engine's rules for their order."""

from __future__ import annotations

import os
from dataclasses import dataclass

import msgspec

from millstream._core import RingConsumer, RingProducer
from millstream.types import Kind


@dataclass(frozen=True)
class Taken:
    """One record of a ring."""

    stream: int
    time_ns: int
    kind: Kind
    choice: int
    token_count: int
    text: str


def ring_pair(capacity: int = 1 << 16) -> tuple[RingConsumer, RingProducer]:
    """Both ends of one ring in this process."""
    consumer = RingConsumer.create(capacity)
    memory, notify = os.dup(consumer.memory_fd()), os.dup(consumer.notify_fd())
    return consumer, RingProducer(memory, notify)


def drain(ring: RingConsumer) -> list[Taken]:
    """What is due, in order."""
    return [
        Taken(stream, time_ns, Kind(kind), choice, count, text)
        for stream, time_ns, kind, choice, count, text in ring.drain()
    ]


@dataclass
class Answer:
    """One stream's records put together; `AssertionError` if their order is not allowed."""

    records: list[Taken]

    @property
    def texts(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for record in self.records:
            if record.kind is Kind.TOKEN:
                found[record.choice] = found.get(record.choice, "") + record.text
        return found

    @property
    def reasons(self) -> dict[int, str]:
        return {one.choice: one.text for one in self.records if one.kind is Kind.FINISH}

    @property
    def tokens(self) -> int:
        return sum(record.token_count for record in self.records)

    @property
    def usage(self) -> dict[str, int]:
        assert self.records[-1].kind is Kind.USAGE
        usage: dict[str, int] = msgspec.json.decode(self.records[-1].text)
        return usage

    @property
    def error(self) -> dict[str, str | None]:
        assert self.records[-1].kind is Kind.ERROR
        error: dict[str, str | None] = msgspec.json.decode(self.records[-1].text)
        return error

    def check(self) -> None:
        """TOKEN* and one FINISH a choice, then one last word."""
        assert self.records
        *before, last = self.records
        assert last.kind in (Kind.USAGE, Kind.ERROR)
        finished: set[int] = set()
        for record in before:
            assert record.kind in (Kind.TOKEN, Kind.FINISH)
            assert record.choice not in finished
            if record.kind is Kind.FINISH:
                finished.add(record.choice)


def by_stream(records: list[Taken]) -> dict[int, Answer]:
    """The records of each stream, checked."""
    streams: dict[int, list[Taken]] = {}
    for record in records:
        streams.setdefault(record.stream, []).append(record)
    return {stream: Answer(found) for stream, found in streams.items()}
