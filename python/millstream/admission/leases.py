"""What admission answers: a lease that has one owner, or a refusal that says when to come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from millstream import _core
from millstream.admission.policies import NANOSECONDS_PER_MILLISECOND, NANOSECONDS_PER_SECOND


class Lease:
    """The right to serve one stream, ended once by its owner: `settle`, `cancel` or `undo`.

    A second ending does nothing and returns False, and so does an ending after the lease expired:
    it was then charged as reserved. ``snapshot`` is what was left right after the reservation.
    """

    __slots__ = ("_clock", "_lease", "_limiter", "snapshot")

    def __init__(
        self,
        limiter: _core.Limiter,
        lease: _core.Lease,
        clock: Callable[[], int],
        snapshot: _core.Snapshot,
    ) -> None:
        self._limiter = limiter
        self._lease = lease
        self._clock = clock
        self.snapshot = snapshot

    @property
    def tokens(self) -> int:
        """Tokens reserved in all."""
        return self._lease.tokens

    def settle(self, actual: int) -> bool:
        """Charges the tokens that were really used, and the request."""
        return self._limiter.settle(self._lease, actual, self._clock())

    def cancel(self, emitted: int) -> bool:
        """Charges the prompt and the tokens emitted until the stream was given up."""
        return self._limiter.cancel(self._lease, emitted, self._clock())

    def undo(self) -> bool:
        """Charges nothing, not even the request: for a stream that never came to be."""
        return self._limiter.undo(self._lease, self._clock())

    def renew(self) -> bool:
        """Keeps a long stream's lease from expiring; False if it has ended."""
        return self._limiter.renew(self._lease, self._clock())


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing was taken; false in a condition, so that it is never mistaken for a lease.

    ``scope`` is ``global`` or ``model:<name>``. After ``retry_after_ns`` the same request is
    admitted if nobody else comes; with ``concurrency`` it is a guess, as no one knows when a stream
    ends.
    """

    scope: str
    dimension: Literal["requests", "tokens", "concurrency"]
    retry_after_ns: int
    snapshot: _core.Snapshot

    def __bool__(self) -> Literal[False]:
        return False

    @property
    def scope_kind(self) -> str:
        """``global`` or ``model``: what of the scope a metric may carry as a label."""
        return self.scope.partition(":")[0]

    @property
    def retry_after_seconds(self) -> int:
        """Whole seconds for ``Retry-After``: rounded up, at least 1."""
        return max(1, -(-self.retry_after_ns // NANOSECONDS_PER_SECOND))

    @property
    def retry_after_ms(self) -> int:
        """Whole milliseconds for ``retry-after-ms``: rounded up, at least 1."""
        return max(1, -(-self.retry_after_ns // NANOSECONDS_PER_MILLISECOND))
