"""Which idempotency key stands for which stream, in this process's memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.store.base import Claim, IdempotencyKey


@dataclass(slots=True)
class _Held:
    claim: Claim
    expires_ns: int | None


class Claims:
    """A claim goes with its stream; one whose stream never came goes by the clock."""

    def __init__(self, *, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._held: dict[IdempotencyKey, _Held] = {}
        self._keys: dict[str, IdempotencyKey] = {}

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: IdempotencyKey) -> Claim | None:
        """Who holds the key now."""
        held = self._held.get(key)
        if held is None or self._expired(held, self._clock()):
            return None
        return held.claim

    def take(self, key: IdempotencyKey, claim: Claim, *, ttl_seconds: float) -> Claim | None:
        """None if the key is free and now this claim's, else the claim that holds it."""
        earlier = self.get(key)
        if earlier is not None:
            return earlier
        self._forget(key)
        self._held[key] = _Held(claim, self._clock() + int(ttl_seconds * 1e9))
        self._keys[claim.stream_id] = key
        return None

    def of(self, stream_id: str) -> tuple[IdempotencyKey, Claim] | None:
        """The key that stands for a stream, and its claim."""
        key = self._keys.get(stream_id)
        return None if key is None else (key, self._held[key].claim)

    def hold(self, stream_id: str) -> None:
        """The stream is there: its key holds until `drop`."""
        key = self._keys.get(stream_id)
        if key is not None:
            self._held[key].expires_ns = None

    def drop(self, stream_id: str) -> None:
        """The stream is gone, and so is its key."""
        key = self._keys.get(stream_id)
        if key is not None:
            self._forget(key)

    def release(self, key: IdempotencyKey, stream_id: str) -> None:
        """Free the key if this stream holds it."""
        if self._keys.get(stream_id) == key:
            self._forget(key)

    def sweep(self, now_ns: int) -> None:
        """Free the keys whose stream never came."""
        for key in [key for key, held in self._held.items() if self._expired(held, now_ns)]:
            self._forget(key)

    def _forget(self, key: IdempotencyKey) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            del self._keys[held.claim.stream_id]

    @staticmethod
    def _expired(held: _Held, now_ns: int) -> bool:
        return held.expires_ns is not None and held.expires_ns <= now_ns
