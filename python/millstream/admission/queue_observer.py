"""What the queue tells about those who wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from millstream.admission.demand import Demand

WaitEnding = Literal["admitted", "full", "deadline", "client_gone", "failed"]
"""``full``: no more may wait for that limit; ``failed``: it could not be counted, or the server
leaves, or no waiting would help any more."""


class QueueObserver(Protocol):
    """Hears of each demand of those who wait; nothing here is called for those who need not."""

    def wait_began(self, model: str) -> None:
        """One more waits for a limit."""
        ...

    def wait_ended(self, model: str, ending: WaitEnding, seconds: float) -> None:
        """One waits no more, after ``seconds``."""
        ...

    def wait_denied(self, model: str, ending: WaitEnding) -> None:
        """One would have waited, but the queue is full or its deadline would come first."""
        ...


class Unwatched:
    """An observer for a queue that nobody watches."""

    def wait_began(self, model: str) -> None:
        """Forget it."""

    def wait_ended(self, model: str, ending: WaitEnding, seconds: float) -> None:
        """Forget it."""

    def wait_denied(self, model: str, ending: WaitEnding) -> None:
        """Forget it."""


class Wait:
    """One request that waits, from its beginning to its one end."""

    def __init__(self, observer: QueueObserver, demands: Sequence[Demand], now_ns: int) -> None:
        self._observer = observer
        self._models = [demand.model for demand in demands]
        self._since_ns = now_ns
        for model in self._models:
            observer.wait_began(model)

    def end(self, ending: WaitEnding, now_ns: int) -> None:
        """Tell how it ended."""
        seconds = max(now_ns - self._since_ns, 0) / 1e9
        for model in self._models:
            self._observer.wait_ended(model, ending, seconds)
