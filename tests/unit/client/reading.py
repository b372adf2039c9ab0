"""A follower driven by hand: no sockets, no time, no chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from millstream.client import EventId, Follower, ReconnectPolicy
from millstream.client.follower import OnGap
from millstream.client.transcript import Piece
from tests.reference.native import NativeStream

EVENTS = {"content-type": "text/event-stream; charset=utf-8"}
AT_ONCE = ReconnectPolicy(base_seconds=0.0)

Wire = Callable[[int, bytes], bytes]
"""What becomes of the body of the nth connection on its way."""


def whole(_connection: int, body: bytes) -> bytes:
    return body


def follower(
    stream_id: str = "s1",
    *,
    after: str | None = None,
    on_gap: OnGap = "raise",
    policy: ReconnectPolicy = AT_ONCE,
) -> Follower:
    return Follower(
        stream_id=stream_id,
        after=None if after is None else EventId.parse(after),
        integrity=True,
        on_gap=on_gap,
        policy=policy,
        chance=lambda: 0.0,
    )


def answer(stream: NativeStream, last_event_id: str | None) -> bytes:
    """The body that a right server sends; empty if there is nothing more (204)."""
    if last_event_id is None:
        return b"".join(frame.data for frame in stream.frames())
    at = EventId.parse(last_event_id)
    if at.seq == len(stream.records) and at.crc == stream.crc(at.seq):
        return b""
    return b"".join(frame.data for frame in stream.frames(stream.restart(at.seq, at.crc)))


def read(reading: Follower, stream: NativeStream, wire: Wire = whole) -> Iterable[Piece]:
    """Read ``stream`` over as many connections as it takes."""
    while (attempt := reading.next_attempt(0.0)) is not None:
        body = answer(stream, attempt.request.headers.get("Last-Event-ID"))
        if reading.answered(200 if body else 204, EVENTS):
            yield from reading.feed(wire(reading.connections, body), 0.0)
            reading.cut()


def read_text(reading: Follower, stream: NativeStream, wire: Wire = whole) -> str:
    return "".join(piece.text for piece in read(reading, stream, wire))
