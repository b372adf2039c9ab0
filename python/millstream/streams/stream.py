"""One generation, from admission to its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from millstream.engines.base import EngineEnd
from millstream.streams.failures import FAILURES
from millstream.streams.lifecycle import Lifecycle, State
from millstream.types import Kind, Outcome, Usage

if TYPE_CHECKING:
    from millstream._core import Log
    from millstream.admission import Lease
    from millstream.engines.base import Engine
    from millstream.types import SamplingParams


class Deadlines(msgspec.Struct, frozen=True):
    """How long a stream may take, in nanoseconds; ``None`` switches a timer off."""

    first_token_ns: int | None = None
    idle_ns: int | None = None
    total_ns: int | None = None


class Stream:
    """Owner of everything that one generation holds: engine request, lease, log.

    However it ends, `end` runs once and in one order: abort the engine, settle the lease, write
    the terminal record. Readers drain to that record, and the last one to leave releases the
    stream. All of it is synchronous, so no cancelled task can stop half-way.
    """

    def __init__(
        self,
        *,
        id: str,
        request: int,
        model: str,
        route: str,
        engine: Engine,
        lease: Lease,
        log: Log,
        prompt_tokens: int,
        deadlines: Deadlines,
        admitted_ns: int,
        wall_clock: Callable[[], int],
        on_closed: Callable[[Stream], None],
    ) -> None:
        self.id = id
        self.request = request
        self.model = model
        self.route = route
        self.log = log
        self.lease = lease
        self.prompt_tokens = prompt_tokens
        self.deadlines = deadlines
        self.admitted_ns = admitted_ns
        self.wall_clock = wall_clock
        self.admitted_wall_ns = wall_clock()
        self.lifecycle = Lifecycle()
        self.outcome: Outcome | None = None
        self._engine = engine
        self._on_closed = on_closed
        self._choices = 0
        self._readers = 0
        self._waiters: list[asyncio.Future[None]] = []

    # --- engine ---------------------------------------------------------------------------------

    def start(self, prompt: list[int], params: SamplingParams) -> None:
        """Hand the request to the engine.

        Raises `EngineUnavailable`; nothing is held or charged then.
        """
        self._choices = params.n
        try:
            self._engine.submit(self.request, prompt, params, self.log, self._engine_ended)
        except BaseException:
            self.lifecycle.move(State.CLOSED)
            self.lease.settle(0)
            self._on_closed(self)
            raise
        self.lifecycle.move(State.HANDSHAKING)

    def _engine_ended(self, end: EngineEnd) -> None:
        if end is EngineEnd.LOST:
            self.end(Outcome.ENGINE_LOST)
        elif self.log.error is not None:
            self.end(Outcome.UPSTREAM_ERROR)
        else:
            self.end(self._natural_outcome())

    def _natural_outcome(self) -> Outcome:
        reasons = {self.log.finish_reason(choice) for choice in range(self._choices)}
        return Outcome.LENGTH if "length" in reasons else Outcome.COMPLETED

    # --- ending ---------------------------------------------------------------------------------

    def mark_active(self) -> None:
        """The first record has been seen; later calls change nothing."""
        if self.lifecycle.state is State.HANDSHAKING:
            self.lifecycle.move(State.ACTIVE)

    def end(self, outcome: Outcome) -> bool:
        """Decide the outcome; the first call wins, later ones return False and change nothing."""
        if self.lifecycle.ended:
            return False
        self.lifecycle.move(State.GRACEFUL_STOPPING)
        self.outcome = outcome
        try:
            self._engine.abort(self.request)
        finally:
            try:
                self.lease.settle(self.usage.prompt_tokens + self.usage.completion_tokens)
            finally:
                self._write_end(outcome)
        if self._readers == 0:
            self._release()
        return True

    def _write_end(self, outcome: Outcome) -> None:
        failure = FAILURES.get(outcome)
        now = self.wall_clock()
        if failure is not None and self.log.error is None:
            self.log.append(Kind.ERROR, failure.to_json(), time_ns=now)
        self.log.close(outcome, time_ns=now)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def wait_ended(self) -> None:
        """Return once the outcome is decided."""
        if self.lifecycle.ended:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    @property
    def created(self) -> int:
        """Unix seconds of the admission."""
        return self.admitted_wall_ns // 1_000_000_000

    @property
    def usage(self) -> Usage:
        """The engine's count where it gave one, else what the log has seen of this stream."""
        counted = self.log.usage
        if counted is not None:
            return Usage.from_json(counted)
        return Usage(self.prompt_tokens, self.log.token_count)

    # --- readers --------------------------------------------------------------------------------

    def attach(self) -> None:
        """One more reader follows this stream."""
        self._readers += 1

    def detach(self) -> None:
        """A reader left; a plain stream without readers has no reason to go on."""
        self._readers -= 1
        if self._readers == 0 and not self.end(Outcome.CLIENT_GONE):
            self._release()

    def _release(self) -> None:
        if self.lifecycle.state is not State.CLOSED:
            self.lifecycle.move(State.CLOSED)
            self._on_closed(self)
