"""An admission with a queue, a clock that the test turns, and everybody who asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from millstream.admission import (
    Admission,
    Demand,
    Lease,
    LimitBook,
    Limits,
    MemoryLimiter,
    QueuePolicy,
    Refusal,
)
from millstream.admission.queue import AGING_NS
from tests.unit.admission.parts import TurnedClock, left, settle

QUEUE = QueuePolicy(max_waiting=1000, deadline_seconds=10)
ONE = Limits(concurrency=1, queue=QUEUE)


class Room:
    """An admission, and everybody who asks it."""

    def __init__(
        self,
        book: LimitBook,
        *,
        poll_ns: int | None = None,
        limiter: type[MemoryLimiter] = MemoryLimiter,
        aging_ns: int = AGING_NS,
    ) -> None:
        self.clock = TurnedClock()
        self.limiter = limiter(clock=self.clock)
        self.book = book
        self.admission = Admission(
            self.limiter,
            book,
            clock=self.clock,
            scheduler=self.clock,
            poll_ns=poll_ns,
            aging_ns=aging_ns,
            random=Random(1),
        )
        self.order: list[str] = []
        self.tasks: dict[str, asyncio.Task[list[Lease] | Refusal]] = {}

    async def ask(
        self,
        name: str,
        *,
        tenant: str = "t",
        model: str = "m",
        tokens: int = 1,
        urgency: int = 3,
        demands: Sequence[Demand] | None = None,
    ) -> None:
        """Somebody asks, and waits if he has to."""
        asked = demands or [Demand(tenant, model, tokens)]

        async def wait() -> list[Lease] | Refusal:
            admitted = await self.admission.admit(asked, urgency=urgency)
            if not isinstance(admitted, Refusal):
                self.order.append(name)
            return admitted

        self.tasks[name] = asyncio.create_task(wait())
        await settle()

    def leases(self, name: str) -> list[Lease]:
        admitted = self.tasks[name].result()
        assert isinstance(admitted, list)
        return admitted

    def refusal(self, name: str) -> Refusal:
        refusal = self.tasks[name].result()
        assert isinstance(refusal, Refusal)
        return refusal

    async def end(self, name: str) -> None:
        """What he held is given back."""
        for lease in self.leases(name):
            lease.settle(lease.tokens)
        await settle()

    def left(self, tenant: str = "t", model: str = "m") -> tuple[int, ...]:
        return left(self.limiter.try_peek(self.book.scopes(tenant, model)))

    @property
    def waiting(self) -> list[str]:
        return [name for name, task in self.tasks.items() if not task.done()]


def room_of(rooms: list[Room], server: Limits, **more: object) -> Room:
    poll_ns = more.pop("poll_ns", None)
    assert poll_ns is None or isinstance(poll_ns, int)
    rooms.append(Room(LimitBook(server, **more), poll_ns=poll_ns))  # type: ignore[arg-type]
    return rooms[-1]
