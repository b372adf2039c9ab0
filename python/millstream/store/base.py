"""What the streams ask of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from millstream.store.recording import Recording


class IdempotencyKey(msgspec.Struct, frozen=True):
    """A client's key; two tenants may use the same one."""

    tenant: str
    key: str


class Claim(msgspec.Struct, frozen=True):
    """Which stream a key stands for, and which request made it."""

    stream_id: str
    fingerprint: str


class Producer(Protocol):
    """Whoever generates a live stream of this process."""

    def cancel(self, branch: int | None) -> None:
        """Somebody elsewhere cancels the stream, or one branch of it. Idempotent."""
        ...

    def watched(self) -> None:
        """Somebody elsewhere reads the stream at this moment."""
        ...


class StreamStore(Protocol):
    """Keeps streams for readers who come later or elsewhere.

    Calls that are not coroutines never block and never fail for a reason outside the process.
    `find`, `cancel`, `claim` and `claimed` raise `StoreUnavailable` while a shared store is out of
    reach and this process cannot answer by itself.
    """

    @property
    def shared(self) -> bool:
        """Whether other processes find the streams of this one."""
        ...

    async def start(self) -> None:
        """Reach what is outside in the background, and again whenever it is lost."""
        ...

    async def close(self) -> None:
        """Write what is still to be written, for a few seconds at most, and let go."""
        ...

    def publish(self, recording: Recording, producer: Producer) -> None:
        """Make a stream that has just begun known; its log is followed from here on."""
        ...

    def keep(self, recording: Recording) -> None:
        """Retain a stream that has ended, for ``retention_seconds`` of its descriptor."""
        ...

    async def find(self, stream_id: str) -> Recording | None:
        """A stream that this process does not generate; None if there is none, or no longer."""
        ...

    async def cancel(self, stream_id: str, branch: int | None) -> bool:
        """Ask the process that generates the stream to cancel; False if there is none."""
        ...

    async def discard(self, stream_id: str) -> None:
        """Forget a stream that has ended, wherever it is kept. Idempotent."""
        ...

    async def claim(self, key: IdempotencyKey, claim: Claim, *, ttl_seconds: float) -> Claim | None:
        """Take a key in one step. None: it is ours; else who had it first."""
        ...

    async def claimed(self, key: IdempotencyKey) -> Claim | None:
        """Who has the key, which stays as it is; None if it is free."""
        ...

    async def release(self, key: IdempotencyKey, stream_id: str) -> None:
        """Give a key back whose stream never came to be; without the store it goes by its time."""
        ...

    def sweep(self, now_ns: int) -> None:
        """Act on the time; ``now_ns`` is monotonic."""
        ...
