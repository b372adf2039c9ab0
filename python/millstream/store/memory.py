"""The store of one worker: its own memory."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING

from millstream.store.claims import Claims
from millstream.store.observer import StoreObserver, Unobserved
from millstream.store.retained import Retained

if TYPE_CHECKING:
    from millstream.store.base import Claim, IdempotencyKey, Producer
    from millstream.store.recording import Recording


class MemoryStore:
    """Retains what this process generated, for as long as the process lives.

    ``max_retained_bytes`` bounds the ended streams, of which the oldest go first; live ones belong
    to their producer. ``clock`` is monotonic, in nanoseconds.
    """

    shared = False

    def __init__(
        self,
        *,
        max_retained_bytes: int,
        clock: Callable[[], int] = monotonic_ns,
        observer: StoreObserver | None = None,
    ) -> None:
        self._observer = observer or Unobserved()
        self._claims = Claims(clock=clock)
        self._retained = Retained(
            max_bytes=max_retained_bytes,
            clock=clock,
            observer=self._observer,
            on_dropped=self._claims.drop,
        )

    async def start(self) -> None:
        """There is nothing to reach."""
        self._observer.store_up(True)

    async def close(self) -> None:
        """There is nothing to write."""

    def publish(self, recording: Recording, producer: Producer) -> None:
        """From here on the stream's idempotency key lasts as long as the stream."""
        self._claims.hold(recording.id)

    def keep(self, recording: Recording) -> None:
        """Retain a stream that has ended."""
        self._retained.add(recording)

    async def find(self, stream_id: str) -> Recording | None:
        """A stream that has ended and is retained."""
        return self._retained.get(stream_id)

    async def cancel(self, stream_id: str, branch: int | None) -> bool:
        """False: no other process is known."""
        return False

    async def discard(self, stream_id: str) -> None:
        """Forget a stream that has ended."""
        self._retained.discard(stream_id)

    async def claim(self, key: IdempotencyKey, claim: Claim, *, ttl_seconds: float) -> Claim | None:
        """Take a key; None if it was free, else the claim that holds it."""
        return self._claims.take(key, claim, ttl_seconds=ttl_seconds)

    async def claimed(self, key: IdempotencyKey) -> Claim | None:
        """The claim that holds a key, if one does."""
        return self._claims.get(key)

    async def release(self, key: IdempotencyKey, stream_id: str) -> None:
        """Free the key if this stream holds it."""
        self._claims.release(key, stream_id)

    def sweep(self, now_ns: int) -> None:
        """Drop what has expired; ``now_ns`` is monotonic."""
        self._retained.sweep(now_ns)
        self._claims.sweep(now_ns)
