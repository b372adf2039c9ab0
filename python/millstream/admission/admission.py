"""The one facade over the limits that routes and orchestrator use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.admission.together import reserve_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from millstream.admission.base import Limiter
    from millstream.admission.book import LimitBook
    from millstream.admission.demand import Demand
    from millstream.admission.leases import Lease, Refusal, Snapshot


class Admission:
    """Decides over requests by the limits of a book, and lets them wait where those allow it.

    ``clock`` gives nanoseconds that never step back.
    """

    def __init__(self, limiter: Limiter, book: LimitBook, *, clock: Callable[[], int]) -> None:
        self.limiter = limiter
        self._book = book
        self._clock = clock

    async def admit(self, demands: Sequence[Demand], *, urgency: int = 3) -> list[Lease] | Refusal:
        """A lease for each demand, or the refusal of one with nothing taken.

        Waits where the limits that refuse have a queue; whoever cancels the wait takes nothing.
        Raises `CostExceedsLimit` where no waiting would help, `LimiterUnavailable`.
        """
        return await reserve_all(self.limiter, self._book, demands)

    async def peek(self, tenant: str, model: str) -> Snapshot:
        """What is left for this tenant's use of this model; takes nothing."""
        return await self.limiter.peek(self._book.scopes(tenant, model))

    def replace(self, book: LimitBook) -> None:
        """Go on under other limits: what is in use stays in use."""
        self._book = book
