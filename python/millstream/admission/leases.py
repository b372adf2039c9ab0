"""What admission answers: a lease that has one owner, or a refusal that says when to come back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from millstream.admission.policies import NANOSECONDS_PER_MILLISECOND, NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from millstream.admission.base import ScopedLimits
    from millstream.admission.meters import Dimension, Snapshot


class Lease(ABC):
    """The right to serve one stream, ended once by its owner: `settle`, `cancel` or `undo`.

    A second ending does nothing and returns False, and so does an ending after the lease is known
    to have expired: it was then charged as reserved. None of them waits; a limiter that counts
    elsewhere sends the ending on its way and goes on sending until it has arrived.
    """

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Tokens reserved in all."""

    @property
    @abstractmethod
    def snapshot(self) -> Snapshot:
        """What was left right after the reservation."""

    @property
    def limits(self) -> tuple[ScopedLimits, ...]:
        """Those that it was reserved under; empty if it does not know them."""
        return ()

    @property
    def quota_remaining(self) -> int | None:
        """Tokens left in the tightest scope right after the reservation; None is no limit."""
        tokens = self.snapshot.tokens
        return None if tokens is None else tokens.remaining

    @abstractmethod
    def settle(self, actual: int) -> bool:
        """Charge the tokens that were really used, and the request."""

    @abstractmethod
    def cancel(self, emitted: int) -> bool:
        """Charge the prompt and the tokens emitted until the stream was given up."""

    @abstractmethod
    def undo(self) -> bool:
        """Charge nothing, not even the request: for a stream that never came to be."""

    @abstractmethod
    def renew(self) -> bool:
        """Keep a long stream's lease from expiring; False if it has ended."""

    @abstractmethod
    def remaining_tokens(self) -> int | None:
        """Tokens left in the tightest scope once this lease has ended; None is no limit."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing was taken; false in a condition, so that it is never mistaken for a lease.

    ``scope`` is a `ScopedLimits` name. After ``retry_after_ns`` the same request is admitted if
    nobody else comes; with ``concurrency`` and ``bytes`` it is a guess, as no one knows when a
    stream ends.
    """

    scope: str
    dimension: Dimension
    retry_after_ns: int
    snapshot: Snapshot
    limits: tuple[ScopedLimits, ...] = ()
    """Those that the request came under; empty if that is not known."""

    def __bool__(self) -> Literal[False]:
        return False

    @property
    def scope_kind(self) -> str:
        """``global``, ``tenant``, ``model`` or ``tenant_model``: fit for a metric's label."""
        if "/" in self.scope and self.scope.startswith("tenant:"):
            return "tenant_model"
        return self.scope.partition(":")[0]

    @property
    def retry_after_seconds(self) -> int:
        """Whole seconds for ``Retry-After``: rounded up, at least 1."""
        return max(1, -(-self.retry_after_ns // NANOSECONDS_PER_SECOND))

    @property
    def retry_after_ms(self) -> int:
        """Whole milliseconds for ``retry-after-ms``: rounded up, at least 1."""
        return max(1, -(-self.retry_after_ns // NANOSECONDS_PER_MILLISECOND))
