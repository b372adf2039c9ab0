"""Whether Valkey counts: told once when that changes, and how soon to try again."""

from __future__ import annotations

from typing import Protocol

from millstream.telemetry.logging import get_logger

_log = get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0


class LimiterObserver(Protocol):
    """What the limiter tells about itself; nothing here is called per decision."""

    def limiter_up(self, up: bool) -> None:
        """Whether the shared counters can be reached."""
        ...


class Unobserved:
    """An observer for a limiter that nobody watches."""

    def limiter_up(self, up: bool) -> None:
        """Forget it."""


class Unreachable(Exception):
    """Valkey does not count at the moment.

    ``sent`` says that the call may have been carried out all the same.
    """

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class Outage:
    """The state of the connection, and the pauses between attempts, which double."""

    def __init__(self, observer: LimiterObserver) -> None:
        self._observer = observer
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self.up: bool | None = None

    def answered(self) -> None:
        """Calls have been carried out."""
        self._pause_seconds = FIRST_PAUSE_SECONDS
        if not self.up:
            self.ended()

    def ended(self) -> None:
        """Valkey would carry out calls; whether it does is to be seen."""
        if self.up is False:
            _log.info("limiter_up")
        self.up = True
        self._observer.limiter_up(True)

    def failed(self, reason: str) -> None:
        """A call has not been answered in time, or was refused."""
        if self.up is False:
            return
        _log.warning("limiter_down", reason=reason)
        self.up = False
        self._observer.limiter_up(False)

    def pause_seconds(self) -> float:
        """How long to wait before the next attempt; longer every time until one succeeds."""
        pause = self._pause_seconds
        self._pause_seconds = min(2 * pause, LONGEST_PAUSE_SECONDS)
        return pause
