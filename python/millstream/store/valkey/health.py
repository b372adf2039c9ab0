"""Whether Valkey answers: told once when that changes, and how soon to try again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from millstream.store.observer import Operation, StoreObserver

_log = get_logger(__name__)

FIRST_PAUSE_NS = 100_000_000
LONGEST_PAUSE_NS = 2_000_000_000
REFUSAL_LINE_NS = 60_000_000_000


class Health:
    """What all connections of one process know together.

    While Valkey is away one of them tries now and then, with pauses that double up to
    ``longest_pause_ns``; the others fail at once. ``failures`` only ever rises.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], int],
        observer: StoreObserver,
        longest_pause_ns: int = LONGEST_PAUSE_NS,
    ) -> None:
        self.up: bool | None = None
        self.failures = 0
        self._clock = clock
        self._observer = observer
        self._longest_pause_ns = longest_pause_ns
        self._pause_ns = min(FIRST_PAUSE_NS, longest_pause_ns)
        self._retry_at_ns = 0
        self._refusal_told_ns: int | None = None

    def may_try(self) -> bool:
        """Whether a call is worth its while; one that may has to tell how it went."""
        if self.up is not False:
            return True
        now_ns = self._clock()
        if now_ns < self._retry_at_ns:
            return False
        self._pause_ns = min(2 * self._pause_ns, self._longest_pause_ns)
        self._retry_at_ns = now_ns + self._pause_ns
        return True

    @property
    def pause_seconds(self) -> float:
        """How long until the next attempt."""
        return max(self._retry_at_ns - self._clock(), 0) / 1e9

    def answered(self) -> None:
        """A call has been answered."""
        if self.up:
            return
        if self.up is False:
            _log.info("store_up")
        self.up = True
        self._observer.store_up(True)

    def failed(self, operation: Operation, error: Exception) -> None:
        """A call has not been answered, or not in time."""
        self.failures += 1
        self._observer.store_error(operation)
        if self.up is False:
            return
        _log.warning("store_down", operation=operation, reason=_reason(error))
        self.up = False
        self._pause_ns = min(FIRST_PAUSE_NS, self._longest_pause_ns)
        self._retry_at_ns = self._clock() + self._pause_ns
        self._observer.store_up(False)

    def refused(self, operation: Operation, error: Exception) -> None:
        """A call has been answered with an error: out of memory, read-only, not permitted."""
        self._observer.store_error(operation)
        now_ns = self._clock()
        if self._refusal_told_ns is None or now_ns - self._refusal_told_ns >= REFUSAL_LINE_NS:
            self._refusal_told_ns = now_ns
            _log.warning("store_refuses", operation=operation, reason=_reason(error))


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
