"""All streams of one worker: found by tenant and path, bounded in number and bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from millstream.durable.budget import Budget
from millstream.durable.content_type import ContentType
from millstream.durable.deadlines import Deadlines, Key
from millstream.durable.expiry import Expiry, Lifetime
from millstream.durable.refusals import Reason, Refusal
from millstream.durable.stream import DurableStream

STREAM_BYTES = 1024
"""What a stream costs beside its path and content."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one worker may hold; the settings of ``[durable]`` with the same names."""

    max_streams: int
    max_stream_bytes: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Creation:
    """What a creator asks for."""

    content_type: ContentType
    expiry: Expiry = None
    closed: bool = False
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Created:
    """The stream, and whether it is a new one."""

    stream: DurableStream
    new: bool


class StreamRegistry:
    """Streams in memory; ``now_ns`` is monotonic, ``unix_ns`` the wall clock.

    ``new_id`` gives 8 hexadecimal digits. Once ``leaving`` is true, `sweep` lets live readers go.
    """

    def __init__(
        self,
        bounds: Bounds,
        *,
        new_id: Callable[[], str],
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        self._bounds = bounds
        self._new_id = new_id
        self._leaving = leaving
        self._budget = Budget(bounds.max_bytes)
        self._streams: dict[Key, DurableStream] = {}
        self._deadlines = Deadlines(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def used_bytes(self) -> int:
        """What all streams hold."""
        return self._budget.used

    @property
    def leaving(self) -> bool:
        """Whether the worker is on its way out, so that nobody should wait any longer."""
        return self._leaving()

    def create(
        self, key: Key, creation: Creation, *, now_ns: int, unix_ns: int
    ) -> Created | Refusal:
        """Make the stream, or find one that was made in the same way."""
        stream = self.find(key, now_ns)
        if stream is not None:
            return _same(stream, creation, now_ns)
        if len(self._streams) >= self._bounds.max_streams:
            message = f"There are durable.max_streams = {self._bounds.max_streams} streams already."
            return Refusal(Reason.TOO_MANY_STREAMS, message)
        lifetime = Lifetime(creation.expiry, now_ns=now_ns, unix_ns=unix_ns)
        stream = self._build(creation, lifetime)
        refusal = stream.charge(STREAM_BYTES + len(key[1])) or stream.fill(creation.body)
        if refusal is not None:
            stream.end()
            return refusal
        self._streams[key] = stream
        self._deadlines.watch(key)
        return Created(stream, new=True)

    def find(self, key: Key, now_ns: int) -> DurableStream | None:
        """The stream, unless there is none or its time is over."""
        stream = self._streams.get(key)
        if stream is not None and stream.over(now_ns):
            self._drop(key)
            return None
        return stream

    def delete(self, key: Key, now_ns: int) -> bool:
        """End a stream; False if there is none."""
        found = self.find(key, now_ns) is not None
        if found:
            self._drop(key)
        return found

    def sweep(self, now_ns: int) -> None:
        """End the streams whose time is over."""
        for key in self._deadlines.passed(now_ns):
            self.find(key, now_ns)
        if self._leaving():
            self._wake_all()

    def close(self) -> None:
        """End every stream; readers see it."""
        for key in list(self._streams):
            self._drop(key)

    def _build(self, creation: Creation, lifetime: Lifetime) -> DurableStream:
        stream = DurableStream(
            self._new_id(),
            creation.content_type,
            lifetime,
            max_bytes=self._bounds.max_stream_bytes,
            budget=self._budget,
        )
        stream.closed = creation.closed
        return stream

    def _drop(self, key: Key) -> None:
        self._streams.pop(key).end()

    def _wake_all(self) -> None:
        for stream in self._streams.values():
            stream.waiters.wake()


def _same(stream: DurableStream, creation: Creation, now_ns: int) -> Created | Refusal:
    """The stream that exists, if it is what the creator asks for; its content is not compared."""
    if stream.content_type.essence != creation.content_type.essence:
        return Refusal(Reason.CONFIGURATION, f"The stream holds {stream.content_type.essence}.")
    if stream.expiry != creation.expiry:
        return Refusal(Reason.CONFIGURATION, "The stream exists with another expiry.")
    if stream.closed != creation.closed:
        state = "closed" if stream.closed else "open"
        return Refusal(Reason.CONFIGURATION, f"The stream exists and is {state}.")
    stream.lifetime.touch(now_ns)
    return Created(stream, new=False)
