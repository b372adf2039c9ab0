"""A lease whose end wakes those who wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.admission.leases import Lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.admission.base import ScopedLimits
    from millstream.admission.meters import Snapshot


class HeldLease(Lease):
    """Any limiter's lease; ``on_end`` is called with its limits after the ending that counts."""

    __slots__ = ("_lease", "_on_end")

    def __init__(self, lease: Lease, on_end: Callable[[tuple[ScopedLimits, ...]], None]) -> None:
        self._lease = lease
        self._on_end = on_end

    @property
    def tokens(self) -> int:
        """Tokens reserved in all."""
        return self._lease.tokens

    @property
    def snapshot(self) -> Snapshot:
        """What was left right after the reservation."""
        return self._lease.snapshot

    @property
    def limits(self) -> tuple[ScopedLimits, ...]:
        """Those that it was reserved under; empty if it does not know them."""
        return self._lease.limits

    def settle(self, actual: int) -> bool:
        """Charge the tokens that were really used, and the request."""
        return self._ended(self._lease.settle(actual))

    def cancel(self, emitted: int) -> bool:
        """Charge the prompt and the tokens emitted until the stream was given up."""
        return self._ended(self._lease.cancel(emitted))

    def undo(self) -> bool:
        """Charge nothing, not even the request: for a stream that never came to be."""
        return self._ended(self._lease.undo())

    def renew(self) -> bool:
        """Keep a long stream's lease from expiring; False if it has ended."""
        return self._lease.renew()

    def remaining_tokens(self) -> int | None:
        """Tokens left in the tightest scope once this lease has ended; None is no limit."""
        return self._lease.remaining_tokens()

    def _ended(self, counts: bool) -> bool:
        if counts:
            self._on_end(self.limits)
        return counts
