"""The responses under way in one worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream._core import Notifier
    from millstream.streams.delivery import Delivery


KEEP_ALIVE_NS = 10_000_000_000
BLOCKED_SEND_NS = 30_000_000_000
LAST_SEND_NS = 1_000_000_000
"""What a client that does not read still gets when the worker's time is up."""


class Deliveries:
    """Keeps quiet connections open, gives up those whose client does not read, and cuts those whose
    credential has expired.

    ``notifier`` is that of the loop's `Wakeups`; a `Sweeper` has to call `sweep`. After
    ``keep_alive_ns`` of silence a comment is sent (None: never); a client that has taken nothing
    for ``blocked_send_ns`` is given up. A delivery may have its own of both. From the time that
    ``deadline_ns`` names on it is `LAST_SEND_NS` for all: the server waits for its connections, and
    a worker that outstays its time is killed with what it has not stored.
    """

    def __init__(
        self,
        notifier: Notifier,
        *,
        keep_alive_ns: int | None = KEEP_ALIVE_NS,
        blocked_send_ns: int = BLOCKED_SEND_NS,
        coalesce_ns: int = 0,
        deadline_ns: Callable[[], int | None] = lambda: None,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.notifier = notifier
        self.keep_alive_ns = keep_alive_ns
        self.blocked_send_ns = blocked_send_ns
        self._coalesce_ns = coalesce_ns
        self._deadline_ns = deadline_ns
        self._clock = clock
        self._deliveries: set[Delivery] = set()
        self._expiring: dict[object, tuple[int, Callable[[], None]]] = {}
        self._postponed: list[Delivery] = []

    @property
    def coalesces(self) -> bool:
        """Whether sends wait for each other at all."""
        return self._coalesce_ns > 0

    def add(self, delivery: Delivery) -> None:
        """Visit this one from now on."""
        self._deliveries.add(delivery)

    def discard(self, delivery: Delivery) -> None:
        """Visit it no more."""
        self._deliveries.discard(delivery)
        self.forget(delivery)

    def expire(self, owner: object, at_ns: int, cut: Callable[[], None]) -> None:
        """Call ``cut`` with every sweep from ``at_ns`` on, until ``owner`` is forgotten."""
        self._expiring[owner] = (at_ns, cut)

    def forget(self, owner: object) -> None:
        """It does not expire any more. Idempotent."""
        self._expiring.pop(owner, None)

    def postpone(self, delivery: Delivery) -> bool:
        """Whether this delivery's next send waits for more, since its last one was just now.

        All that wait are sent by one timer, so a window costs the loop one call, not one a stream.
        """
        if self._clock() - delivery.sent_ns >= self._coalesce_ns:
            return False
        if not self._postponed:
            asyncio.get_running_loop().call_later(self._coalesce_ns / 1e9, self._flush)
        self._postponed.append(delivery)
        return True

    def _flush(self) -> None:
        postponed, self._postponed = self._postponed, []
        for delivery in postponed:
            delivery.flush()

    def sweep(self, now_ns: int) -> None:
        """Look at every delivery once; ``now_ns`` is monotonic."""
        for at_ns, cut in tuple(self._expiring.values()):
            if now_ns >= at_ns:
                cut()
        deadline_ns = self._deadline_ns()
        over = deadline_ns is not None and now_ns >= deadline_ns
        for delivery in tuple(self._deliveries):
            blocked, longest = delivery.blocked_since_ns, delivery.blocked_send_ns
            if blocked is not None:
                if now_ns - blocked > (min(longest, LAST_SEND_NS) if over else longest):
                    delivery.drop()
            elif _quiet(delivery, now_ns):
                delivery.keep_alive()


def _quiet(delivery: Delivery, now_ns: int) -> bool:
    interval = delivery.keep_alive_ns
    return interval is not None and now_ns - delivery.sent_ns >= interval
