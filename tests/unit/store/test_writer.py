"""What the writer does when it never comes to rest, and when there is nothing to write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from millstream.store.observer import Operation, Unobserved
from millstream.store.recording import Recording
from millstream.store.valkey.health import Health
from millstream.store.valkey.outgoing import FULL_ENTRY_RECORDS, Outgoing
from millstream.store.valkey.wire import Command
from millstream.store.valkey.writer import RENEW_NS, Writer
from tests.unit.store.recordings import Producer, recording, write
from tests.waiting import HANG_SECONDS

ROUNDS = 100


class BusyServer:
    """Takes every command; by the time it answers, the stream has a full entry more.

    Stands in for `millstream.store.valkey.connection.Connection`; time passes with each round.
    """

    def __init__(self, stream: Recording) -> None:
        self.now_ns = 0
        self.rounds = 0
        self.renewals: list[Command] = []
        self.renewed = asyncio.Event()
        self._stream = stream

    def clock(self) -> int:
        return self.now_ns

    async def send(self, operation: Operation, commands: Sequence[Command]) -> list[bytes]:
        await asyncio.sleep(0)
        self.now_ns += RENEW_NS // 10
        self.rounds += 1
        if self.rounds < ROUNDS:
            write(self._stream, *"x" * FULL_ENTRY_RECORDS)
        return [b"1" for _ in commands]

    async def call(self, operation: Operation, *commands: Command) -> list[bytes]:
        self.renewals.extend(commands)
        self.renewed.set()
        return [b"1" for _ in commands]


def writer_to(server: BusyServer) -> Writer:
    return Writer(
        server,  # type: ignore[arg-type]
        Health(clock=server.clock, observer=Unobserved()),
        flush_ns=1,
        clock=server.clock,
        observer=Unobserved(),
    )


def outgoing(stream: Recording) -> Outgoing:
    return Outgoing(stream, Producer(), owner="me", claim=None, live_ttl_ms=1000, max_entries=100)


async def test_keys_are_renewed_although_there_is_always_more_to_write() -> None:
    stream = recording("a", *"x" * FULL_ENTRY_RECORDS)
    server = BusyServer(stream)
    writer = writer_to(server)
    writer.add(outgoing(stream))
    running = asyncio.create_task(writer.run())
    try:
        async with asyncio.timeout(HANG_SECONDS):
            await server.renewed.wait()
    finally:
        running.cancel()
    assert server.rounds < ROUNDS
    assert {command[0] for command in server.renewals} == {"PEXPIRE"}


async def test_a_stream_whose_records_were_dropped_before_they_were_written_asks_nothing() -> None:
    stream = recording("a", max_bytes=4)
    server = BusyServer(stream)
    server.rounds = ROUNDS
    writer = writer_to(server)
    waiting = outgoing(stream)
    writer.add(waiting)
    assert await writer.flush()
    write(stream, "longer than the log")
    assert not await writer.flush()
    assert waiting.sure
    assert server.renewals == []
