"""The responses under way in one worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream._core import Notifier
    from millstream.streams.delivery import Delivery


class Deliveries:
    """Keeps quiet connections open and gives up those whose client does not read.

    ``notifier`` wakes their readers; the worker's hub watches it.
    """

    def __init__(
        self, notifier: Notifier, *, keep_alive_ns: int | None, blocked_send_ns: int
    ) -> None:
        self.notifier = notifier
        self._keep_alive_ns = keep_alive_ns
        self._blocked_send_ns = blocked_send_ns
        self._deliveries: set[Delivery] = set()

    def add(self, delivery: Delivery) -> None:
        """Visit this one from now on."""
        self._deliveries.add(delivery)

    def discard(self, delivery: Delivery) -> None:
        """Visit it no more."""
        self._deliveries.discard(delivery)

    def sweep(self, now_ns: int) -> None:
        """Look at every delivery once; ``now_ns`` is monotonic."""
        for delivery in tuple(self._deliveries):
            blocked = delivery.blocked_since_ns
            if blocked is not None:
                if now_ns - blocked > self._blocked_send_ns:
                    delivery.drop()
            elif self._quiet(delivery, now_ns):
                delivery.keep_alive()

    def _quiet(self, delivery: Delivery, now_ns: int) -> bool:
        interval = self._keep_alive_ns
        return interval is not None and delivery.comments and now_ns - delivery.sent_ns >= interval
