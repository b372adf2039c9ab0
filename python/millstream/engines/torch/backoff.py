"""How long to wait before the next attempt."""

from __future__ import annotations


class Backoff:
    """Doubles from ``initial_seconds`` to ``cap_seconds``; a long enough success starts it anew."""

    def __init__(
        self,
        *,
        initial_seconds: float = 0.1,
        cap_seconds: float = 30.0,
        healthy_seconds: float = 10.0,
    ) -> None:
        self._initial = initial_seconds
        self._cap = cap_seconds
        self._healthy = healthy_seconds
        self._next = initial_seconds

    def failed(self, after_seconds: float = 0.0) -> float:
        """Seconds to wait, now that an attempt has failed or ended ``after_seconds`` of service."""
        if after_seconds >= self._healthy:
            self._next = self._initial
        delay, self._next = self._next, min(self._next * 2, self._cap)
        return delay
