"""Deliveries over a ``send`` that the test holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Message

from millstream._core import Encoder, Log, Reader
from millstream.store import Recording
from millstream.streams.delivery import Delivery
from millstream.streams.frames import FrameReader
from millstream.streams.hub import Wakeups
from millstream.streams.stream import Stream
from tests.unit.streams.parts import SECOND, Bench


class Sending:
    """Finishes at once, or suspends while ``open`` is clear."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.open = asyncio.Event()
        self.open.set()
        self.failure: Exception | None = None

    async def __call__(self, message: Message) -> None:
        if self.failure is not None:
            raise self.failure
        await self._room()
        self.messages.append(message)

    def _room(self) -> Awaitable[object]:
        return self.open.wait()

    @property
    def text(self) -> str:
        return b"".join(message["body"] for message in self.messages).decode()


def reader_of(log: Log) -> Reader:
    encoder = Encoder(dialect="native", framing="ndjson", chunk_id="c", model="m", created=0)
    return Reader(log, encoder)


def delivery_of(
    stream: Stream | Recording,
    send: Sending,
    wakeups: Wakeups,
    *,
    now: list[int] | None = None,
    postpone: Callable[[Delivery], bool] | None = None,
    reader: FrameReader | None = None,
    **options: Any,
) -> Delivery:
    clock = now or [0]
    given: dict[str, Any] = {
        "overrun": lambda _reader: b"overrun",
        "keep_alive_ns": 10 * SECOND,
        "blocked_send_ns": 5 * SECOND,
    }
    return Delivery(
        stream,
        reader or reader_of(stream.log),
        send,
        notifier=wakeups.notifier,
        postpone=postpone,
        clock=lambda: clock[0],
        **given | options,
    )


def opened() -> tuple[Bench, Sending, Stream]:
    """A stream that the engine works on and one reader follows."""
    bench = Bench()
    stream = bench.started()
    stream.attach()
    return bench, Sending(), stream


async def settle() -> None:
    """Let everything that can run now run, descriptors included."""
    for _ in range(10):
        await asyncio.sleep(0)
