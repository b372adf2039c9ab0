"""One call that is to come, which may be put off or brought forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.admission.scheduler import Scheduled, Scheduler


class Alarm:
    """Calls ``ring`` once at the time that was set last; to set the same again costs nothing."""

    def __init__(self, scheduler: Scheduler, ring: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._ring = ring
        self._call: Scheduled | None = None
        self._when_ns: int | None = None

    def set(self, when_ns: int | None) -> None:
        """Ring at this time and at no other; None is never."""
        if when_ns == self._when_ns:
            return
        if self._call is not None:
            self._call.cancel()
        self._when_ns = when_ns
        self._call = None if when_ns is None else self._scheduler.call_at(when_ns, self._due)

    def _due(self) -> None:
        self._call = self._when_ns = None
        self._ring()
