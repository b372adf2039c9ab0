"""Waiting for a limit instead of being refused."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from millstream.admission.leases import Lease, Refusal
from millstream.admission.line import Line
from millstream.admission.queue_observer import QueueObserver, Unwatched, Wait, WaitEnding
from millstream.admission.together import undo_all
from millstream.admission.waiter import Waiter, is_known, keys_of

if TYPE_CHECKING:
    from millstream.admission.demand import Demand
    from millstream.admission.policies import QueuePolicy
    from millstream.admission.scheduler import Scheduled, Scheduler
    from millstream.admission.waiter import Key

AGING_NS = 1_000_000_000
"""After each second a waiter counts as one step more urgent, down to 0."""

LATE_NS = 100_000_000
"""How long after its deadline a waiter may be tried yet, in a round that was begun before."""

Attempt = Callable[[Sequence["Demand"]], Awaitable[list[Lease] | Refusal]]


class Queue:
    """Those whom a limit with a queue has refused, until it admits them.

    Of the same tenant and model the first come goes first; one with several branches stands before
    others only where it was refused. Among the first of each, the more urgent goes first, then who
    came earlier; waiting makes urgent (`AGING_NS`). A scope that somebody waits for takes nobody
    after him (`Waiter.holds`), so a large request is not passed for ever by small ones. All look
    again together: when the wait of one is over, when a lease has ended (`wake`), and with
    ``poll_ns`` about as often, for leases that end elsewhere.

    Lives on one event loop. ``scopes_of`` and ``policy_of`` say what limits a request by now;
    ``attempt`` takes all that is demanded, or nothing.
    """

    def __init__(
        self,
        attempt: Attempt,
        *,
        scopes_of: Callable[[Sequence[Demand]], frozenset[str]],
        policy_of: Callable[[Sequence[Demand], str], QueuePolicy | None],
        clock: Callable[[], int],
        scheduler: Scheduler,
        poll_ns: int | None = None,
        aging_ns: int = AGING_NS,
        random: Random | None = None,
        observer: QueueObserver | None = None,
    ) -> None:
        self._attempt = attempt
        self._scopes_of = scopes_of
        self._policy_of = policy_of
        self._clock = clock
        self._scheduler = scheduler
        self._poll_ns = poll_ns
        self._aging_ns = aging_ns
        self._random = random or Random()  # noqa: S311 - spreads workers, keeps no secret
        self._observer = observer or Unwatched()
        self._line = Line()
        self._arrivals = 0
        self._wakes = 0
        self._timer: Scheduled | None = None
        self._timer_ns: int | None = None
        self._next_try_ns: int | None = None
        self._due = False
        self._round: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._line)

    async def admit(self, demands: Sequence[Demand], urgency: int) -> list[Lease] | Refusal:
        """Leases at once, or after waiting; the last refusal if that was for nothing.

        The refusal may be that of somebody ahead, with what is left for him.
        """
        ahead, wakes = self._ahead(demands, urgency) if self._line else None, self._wakes
        if ahead is None:
            admitted = await self._attempt(demands)
            if not isinstance(admitted, Refusal):
                return admitted
            refusal, policy = admitted, self._policy_of(demands, admitted.scope)
        else:
            refusal = ahead.refusal_at(self._clock(), self._scopes_of(demands))
            policy = self._policy_of(demands, refusal.scope) or ahead.policy
        waiter = self._join(demands, urgency, refusal, policy)
        if waiter is None:
            return refusal
        if self._wakes != wakes:
            self.wake()  # for a lease that has ended while the limiter was asked
        return await self._wait(waiter)

    def wake(self) -> None:
        """Something may be free now."""
        self._wakes += 1
        if not self._line:
            return
        self._due = True
        if self._round is None:
            self._round = asyncio.get_running_loop().create_task(self._rounds(), name="admission")

    def turn_away(self, error: Exception) -> None:
        """Everybody who waits fails with this."""
        for waiter in tuple(self._line):
            self._line.leave(waiter)
            if not waiter.future.done():
                waiter.future.set_exception(error)
        self._arm()

    # --- coming and going -----------------------------------------------------------------------

    def _ahead(self, demands: Sequence[Demand], urgency: int) -> Waiter | None:
        """Somebody who has to be admitted before a newcomer."""
        before = self._line.last_of(keys_of(demands))
        if before is not None:
            return before
        now_ns, scopes = self._clock(), self._scopes_of(demands)
        for head in self._line.heads():
            if head.holds & scopes and head.urgency_at(now_ns, self._aging_ns) <= urgency:
                return head
        return None

    def _join(
        self,
        demands: Sequence[Demand],
        urgency: int,
        refusal: Refusal,
        policy: QueuePolicy | None,
    ) -> Waiter | None:
        if policy is None:
            return None
        now_ns = self._clock()
        full = self._line.refused_by(refusal.scope) >= policy.max_waiting
        if full or not _in_time(refusal, now_ns, now_ns + policy.deadline_ns):
            for demand in demands:
                self._observer.wait_denied(demand.model, "full" if full else "deadline")
            return None
        future: asyncio.Future[list[Lease] | Refusal]
        future = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        waiter = Waiter(self._arrivals, demands, urgency, now_ns, future)
        waiter.refuse(refusal, policy, now_ns)
        waiter.keys = self._refused_keys(waiter)
        self._line.join(waiter)
        self._try_again_at(self._retry_ns(waiter, now_ns))
        self._arm()
        return waiter

    async def _wait(self, waiter: Waiter) -> list[Lease] | Refusal:
        future = waiter.future
        ending: WaitEnding = "failed"
        wait = Wait(self._observer, waiter.demands, waiter.since_ns)
        try:
            result = await future
            ending = _ending_of(waiter, result)
            return result
        except asyncio.CancelledError:
            ending = "client_gone"
            self._line.leave(waiter)
            # Admitted in the very moment in which it was given up.
            if future.done() and not future.cancelled() and future.exception() is None:
                _undo(future.result())
            self.wake()
            self._arm()
            raise
        finally:
            wait.end(ending, self._clock())

    def _end(self, waiter: Waiter, result: list[Lease] | Refusal) -> None:
        self._line.leave(waiter)
        # The task of one that is being cancelled has not heard of it yet.
        if not waiter.future.done():
            waiter.future.set_result(result)
        else:
            _undo(result)

    # --- trying again ---------------------------------------------------------------------------

    async def _rounds(self) -> None:
        try:
            while self._due and self._line:
                self._due = False
                self._next_try_ns = None
                await self._once()
                # After trying: at a deadline that is also the end of a known wait, the wait counts.
                self._expire()
        finally:
            self._round = None
            self._arm()

    async def _once(self) -> None:
        """Try everybody who is first, in order, past nobody who waits for the same scope."""
        now_ns, arrivals = self._clock(), self._arrivals
        turns = [self._turn(head, now_ns) for head in self._line.heads()]
        heapq.heapify(turns)
        closed: set[str] = set()
        while turns:
            *_, waiter = heapq.heappop(turns)
            if waiter not in self._line or closed & self._scopes_of(waiter.demands):
                continue
            if await self._try(waiter):
                # Who has come meanwhile may have stood behind this one.
                self._due |= self._arrivals != arrivals
                for follower in self._line.followers(waiter.keys):
                    heapq.heappush(turns, self._turn(follower, now_ns))
            else:
                closed |= waiter.holds
            # Where the limiter is slow, those who are to be tried yet have a deadline, too.
            self._expire(LATE_NS)

    def _turn(self, waiter: Waiter, now_ns: int) -> tuple[int, int, Waiter]:
        return waiter.urgency_at(now_ns, self._aging_ns), waiter.arrival, waiter

    async def _try(self, waiter: Waiter) -> bool:
        """Whether it waits no more."""
        try:
            admitted = await self._attempt(waiter.demands)
        except Exception as error:
            if self._line.leave(waiter) and not waiter.future.done():
                waiter.future.set_exception(error)
            return True
        if waiter not in self._line:
            # It has gone while the limiter was asked.
            _undo(admitted)
            self._due = True
            return True
        if isinstance(admitted, Refusal):
            return self._refused_again(waiter, admitted)
        self._end(waiter, admitted)
        return True

    def _refused_again(self, waiter: Waiter, refusal: Refusal) -> bool:
        now_ns, origin = self._clock(), waiter.refusal.scope
        policy = self._policy_of(waiter.demands, refusal.scope)
        elsewhere = refusal.scope != origin
        waiter.crowded_out = policy is None or (
            elsewhere and self._line.refused_by(refusal.scope) >= policy.max_waiting
        )
        if (
            policy is None
            or waiter.crowded_out
            or not _in_time(refusal, now_ns, waiter.since_ns + policy.deadline_ns)
        ):
            self._end(waiter, refusal)
            return True
        deadline_ns = waiter.deadline_ns
        waiter.refuse(refusal, policy, now_ns)
        if elsewhere or waiter.deadline_ns != deadline_ns:
            self._line.moved(waiter, origin)
        if elsewhere:
            for key in self._refused_keys(waiter):
                if key not in waiter.keys:
                    self._line.stand(waiter, key)
        self._try_again_at(self._retry_ns(waiter, now_ns))
        return False

    def _refused_keys(self, waiter: Waiter) -> tuple[Key, ...]:
        """Where it stands: the others of its models may have room for whoever comes."""
        refused = [
            demand
            for demand in waiter.demands
            if waiter.refusals.keys() & self._scopes_of((demand,))
        ]
        return keys_of(refused or waiter.demands)

    def _retry_ns(self, waiter: Waiter, now_ns: int) -> int:
        if self._poll_ns is None:
            return waiter.retry_ns
        return min(waiter.retry_ns, now_ns + int(self._poll_ns * self._random.uniform(0.5, 1.5)))

    def _try_again_at(self, when_ns: int) -> None:
        if self._next_try_ns is None or when_ns < self._next_try_ns:
            self._next_try_ns = when_ns

    # --- the timer ------------------------------------------------------------------------------

    def _arm(self) -> None:
        if self._round is not None and self._line:
            return  # it does so when it has ended
        times = (self._next_try_ns, self._line.next_deadline_ns)
        known = [time for time in times if time is not None] if self._line else []
        when_ns = min(known, default=None)
        if when_ns == self._timer_ns:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = when_ns
        self._timer = None if when_ns is None else self._scheduler.call_at(when_ns, self._ring)

    def _ring(self) -> None:
        self._timer = self._timer_ns = None
        if self._next_try_ns is not None and self._clock() >= self._next_try_ns:
            self.wake()
        else:
            self._expire()
            if self._due:
                self.wake()
        self._arm()

    def _expire(self, late_ns: int = 0) -> None:
        now_ns = self._clock()
        for waiter in self._line.expired(now_ns - late_ns):
            self._end(waiter, waiter.refusal_at(now_ns))
            self._due = True


def _undo(result: list[Lease] | Refusal) -> None:
    if not isinstance(result, Refusal):
        undo_all(result)


def _ending_of(waiter: Waiter, result: list[Lease] | Refusal) -> WaitEnding:
    if not isinstance(result, Refusal):
        return "admitted"
    return "full" if waiter.crowded_out else "deadline"


def _in_time(refusal: Refusal, now_ns: int, deadline_ns: int) -> bool:
    return not is_known(refusal) or now_ns + refusal.retry_after_ns <= deadline_ns
