"""The bound that every limiter keeps under an admission, and clients that try to break it.

In any window the tokens that were admitted come to at most the limit and one settled estimate
error: what one stream used beyond its reservation, which nobody could know before. `Ledger` writes
down what a limiter grants, `Crowd` is the clients; the limiter and how time passes are the test's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from millstream.admission import (
    Admission,
    Cost,
    Demand,
    Lease,
    Limiter,
    Refusal,
    ScopedLimits,
    Snapshot,
)


@dataclass(eq=False)
class Entry:
    """One reservation: when it was made, and what it came to in the end."""

    at_ns: int
    scopes: tuple[str, ...]
    requests: int
    kibibytes: int
    tokens: int
    overrun: int = 0
    overrun_at_ns: int = 0
    undone: bool = False


@dataclass
class Ledger:
    """What a limiter has granted, by the time of ``clock``."""

    clock: Callable[[], int]
    entries: list[Entry] = field(default_factory=list)
    open: set[Entry] = field(default_factory=set)
    most_open: int = 0
    most_kibibytes: int = 0

    def begin(self, scopes: tuple[ScopedLimits, ...], cost: Cost) -> Entry:
        names = tuple(scoped.scope for scoped in scopes)
        entry = Entry(self.clock(), names, cost.requests, cost.kibibytes, cost.tokens)
        self.entries.append(entry)
        self.open.add(entry)
        self.most_open = max(self.most_open, len(self.open))
        held = sum(one.kibibytes for one in self.open)
        self.most_kibibytes = max(self.most_kibibytes, held)
        return entry

    def end(self, entry: Entry, used: int, *, undone: bool = False) -> None:
        self.open.discard(entry)
        entry.undone = undone
        entry.overrun, entry.overrun_at_ns = max(used - entry.tokens, 0), self.clock()
        entry.tokens = min(used, entry.tokens)

    def most_tokens(self, window_ns: int, scope: str) -> int:
        """The most that any window of this length has seen of a scope."""
        events = [(one.at_ns, one.tokens) for one in self.entries if scope in one.scopes]
        events += [(one.overrun_at_ns, one.overrun) for one in self.entries if scope in one.scopes]
        return _most(events, window_ns)

    def most_requests(self, window_ns: int, scope: str) -> int:
        """The same of requests; those that were undone took none."""
        kept = [one for one in self.entries if scope in one.scopes and not one.undone]
        return _most([(one.at_ns, one.requests) for one in kept], window_ns)


def _most(events: list[tuple[int, int]], window_ns: int) -> int:
    events = sorted(events)
    most = inside = first = 0
    for at_ns, amount in events:
        inside += amount
        while events[first][0] <= at_ns - window_ns:
            inside -= events[first][1]
            first += 1
        most = max(most, inside)
    return most


class RecordedLease(Lease):
    """A lease whose ending is written down."""

    def __init__(self, lease: Lease, entry: Entry, ledger: Ledger, prompt_tokens: int) -> None:
        self._lease, self._entry, self._ledger = lease, entry, ledger
        self._prompt_tokens = prompt_tokens

    @property
    def tokens(self) -> int:
        return self._lease.tokens

    @property
    def snapshot(self) -> Snapshot:
        return self._lease.snapshot

    def settle(self, actual: int) -> bool:
        return self._ended(self._lease.settle(actual), actual)

    def cancel(self, emitted: int) -> bool:
        return self._ended(self._lease.cancel(emitted), self._prompt_tokens + emitted)

    def undo(self) -> bool:
        return self._ended(self._lease.undo(), 0, undone=True)

    def renew(self) -> bool:
        return self._lease.renew()

    def remaining_tokens(self) -> int | None:
        return self._lease.remaining_tokens()

    def _ended(self, counts: bool, used: int, *, undone: bool = False) -> bool:
        if counts:
            self._ledger.end(self._entry, used, undone=undone)
        return counts


class RecordingLimiter:
    """A limiter whose grants are written down."""

    def __init__(self, limiter: Limiter, ledger: Ledger) -> None:
        self._limiter, self._ledger = limiter, ledger

    async def start(self) -> None:
        await self._limiter.start()

    async def close(self) -> None:
        await self._limiter.close()

    async def reserve(self, scopes: tuple[ScopedLimits, ...], cost: Cost) -> Lease | Refusal:
        reserved = await self._limiter.reserve(scopes, cost)
        if isinstance(reserved, Refusal):
            return reserved
        entry = self._ledger.begin(scopes, cost)
        return RecordedLease(reserved, entry, self._ledger, cost.prompt_tokens)

    async def peek(self, scopes: tuple[ScopedLimits, ...]) -> Snapshot:
        return await self._limiter.peek(scopes)


@dataclass
class Client:
    """Asks, waits or gives up, holds, ends; ``error`` is what it may use beyond its estimate."""

    tenant: str
    error: int = 0
    task: asyncio.Task[list[Lease] | Refusal] | None = None
    leases: list[Lease] = field(default_factory=list)
    demands: list[Demand] = field(default_factory=list)


class Crowd:
    """Clients that ask an admission at random; one of them knows its own costs badly.

    Only one: the errors of several that are open at once add up, in any limiter.
    """

    def __init__(
        self,
        admission: Admission,
        random: Random,
        *,
        clients: int = 64,
        tenants: int = 3,
        most_tokens: int = 900,
        error: int = 500,
    ) -> None:
        self._admission, self._random, self._most_tokens = admission, random, most_tokens
        self.clients = [Client(f"t{number % tenants}") for number in range(clients)]
        self.clients[0].error = error

    async def drive(self, steps: int, advance: Callable[[], Awaitable[None]]) -> None:
        """Let everybody act in random order, and time pass, over and over."""
        for _ in range(steps):
            for client in self._random.sample(self.clients, self._random.randint(1, 24)):
                self._act(client)
            await advance()
            for client in self.clients:
                self._look(client)

    async def go_home(self) -> None:
        """Everybody gives up, or ends what he holds."""
        for client in self.clients:
            if client.task is not None:
                client.task.cancel()
        waiting = [client.task for client in self.clients if client.task is not None]
        await asyncio.gather(*waiting, return_exceptions=True)
        for client in self.clients:
            self._look(client)
            for lease in client.leases:
                lease.cancel(0)
            client.leases = []

    def _act(self, client: Client) -> None:
        if client.leases:
            self._end(client)
        elif client.task is None:
            self._ask(client)
        elif self._random.random() < 0.3:
            client.task.cancel()

    def _ask(self, client: Client) -> None:
        random = self._random
        client.demands = [self._demand(client) for _ in range(random.choice((1, 1, 1, 2)))]
        # One whose costs are wrong has one stream.
        del client.demands[1 if client.error else 2 :]
        asked = self._admission.admit(client.demands, urgency=random.randint(0, 7))
        client.task = asyncio.create_task(asked)

    def _demand(self, client: Client) -> Demand:
        prompt = self._random.randint(1, self._most_tokens // 3)
        output = self._random.randint(1, self._most_tokens - prompt)
        model, kibibytes = self._random.choice("mn"), self._random.randint(0, 64)
        return Demand(client.tenant, model, prompt + output, prompt, kibibytes)

    def _look(self, client: Client) -> None:
        if client.task is None or not client.task.done():
            return
        task, client.task = client.task, None
        if not task.cancelled():
            admitted = task.result()
            client.leases = [] if isinstance(admitted, Refusal) else admitted

    def _end(self, client: Client) -> None:
        for lease, demand in zip(client.leases, client.demands, strict=True):
            match self._random.choice(("settle", "settle", "cancel", "undo", "twice")):
                case "settle":
                    used = self._random.randint(0, demand.tokens + client.error)
                    lease.settle(used)
                case "cancel":
                    lease.cancel(self._random.randint(0, demand.tokens - demand.prompt_tokens))
                case "undo":
                    lease.undo()
                case _:
                    lease.settle(demand.tokens)
                    lease.settle(0)
        client.leases = []
