"""One generation, or several that share a connection, from admission to the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from millstream.streams.branch import WHOLE, BranchRun, worst
from millstream.streams.failures import CREDENTIAL_EXPIRED
from millstream.streams.lifecycle import Lifecycle, State
from millstream.types import Kind, Outcome, Settlement, Usage

if TYPE_CHECKING:
    from millstream.admission import Lease
    from millstream.engines.base import EngineEnd
    from millstream.store import Recording
    from millstream.streams.observer import Observer
    from millstream.types import Failure, SamplingParams


class Stream:
    """Owner of everything that a generation holds: engine requests, leases, log.

    However it ends, `end` runs once and in one order: abort the engines, settle the leases, write
    the terminal record. Readers drain to that record, and the last one to leave releases the
    stream. All of it is synchronous, so no cancelled task can stop half-way.

    ``grace_ns`` is how long it goes on when its last reader has left: 0 for a plain stream, None
    for one in the background, which nobody has to read. ``on_ended`` is called when the terminal
    record is written, ``on_closed`` when nothing is held any more.
    """

    def __init__(
        self,
        *,
        recording: Recording,
        branches: Sequence[BranchRun],
        route: str,
        retained: bool,
        grace_ns: int | None,
        admitted_ns: int,
        admitted_wall_ns: int,
        clock: Callable[[], int],
        wall_clock: Callable[[], int],
        observer: Observer,
        on_ended: Callable[[Stream], None],
        on_closed: Callable[[Stream], None],
    ) -> None:
        self.recording = recording
        self.descriptor = recording.descriptor
        self.id = recording.descriptor.id
        self.log = recording.log
        self.branches = tuple(branches)
        self.route = route
        self.retained = retained
        self.grace_ns = grace_ns
        self.admitted_ns = admitted_ns
        self.admitted_wall_ns = admitted_wall_ns
        self.lifecycle = Lifecycle()
        self.outcome: Outcome | None = None
        self.detached_ns: int | None = None if grace_ns == 0 else admitted_ns
        self._clock = clock
        self._wall_clock = wall_clock
        self._observer = observer
        self._on_ended = on_ended
        self._on_closed = on_closed
        self._handover: str | None = None
        self._settlement: Settlement | None = None
        self._waiters: list[asyncio.Future[None]] = []

    # --- engines --------------------------------------------------------------------------------

    def start(self, requests: Sequence[tuple[list[int], SamplingParams]]) -> None:
        """Hand each branch's prompt to its engine, all or none.

        Raises `EngineUnavailable`; nothing is held or charged then.
        """
        try:
            for branch, (prompt, params) in zip(self.branches, requests, strict=True):
                branch.submit(prompt, params, partial(self._engine_ended, branch))
        except BaseException:
            self._give_back()
            raise
        self._move(State.HANDSHAKING)

    def _give_back(self) -> None:
        _take(
            *[branch.abort for branch in self.branches],
            *[branch.lease.undo for branch in self.branches],
            partial(self._move, State.CLOSED),
            partial(self._on_closed, self),
        )

    def _engine_ended(self, branch: BranchRun, end: EngineEnd) -> None:
        self.end_branch(branch.index, branch.outcome_after(end))

    # --- ending ---------------------------------------------------------------------------------

    def mark_active(self) -> None:
        """The first record has been seen; later calls change nothing."""
        if self.lifecycle.state is State.HANDSHAKING:
            self._move(State.ACTIVE)

    def end(self, outcome: Outcome, failure: Failure | None = None) -> bool:
        """Decide the outcome; the first call wins, later ones return False and change nothing.

        Readers are told of ``failure`` where the outcome says too little and the engine nothing.
        """
        if self.lifecycle.ended:
            return False
        self._move(State.GRACEFUL_STOPPING)
        self.outcome = outcome
        running = [branch for branch in self.branches if branch.outcome is None]
        _take(
            *[branch.abort for branch in running],
            *[branch.settle for branch in running],
            *[partial(self._write_branch_end, branch, outcome, failure) for branch in running],
            partial(self._sum_up, outcome),
            partial(self._write_end, outcome),
            self._ended,
        )
        return True

    def end_branch(self, index: int, outcome: Outcome) -> bool:
        """Decide the outcome of one branch; with the last one, the worst of all is the stream's.

        Returns False, and changes nothing, if it is decided. Raises IndexError.
        """
        branch = self.branches[index]
        if len(self.branches) == 1:
            return self.end(outcome)
        if branch.outcome is not None or self.lifecycle.ended:
            return False
        _take(
            branch.abort,
            branch.settle,
            partial(self._write_branch_end, branch, outcome),
            self._branch_ended,
        )
        return True

    def cancel(self, branch: int | None) -> None:
        """Somebody cancels the stream, or one branch of it. Idempotent."""
        if branch is None:
            self.end(Outcome.CANCELLED)
        elif branch < len(self.branches):
            self.end_branch(branch, Outcome.CANCELLED)

    def reader_expired(self) -> bool:
        """The credential of a reader has expired: end if nobody else may read on.

        False: the stream goes on, and its reader may come back with another credential.
        """
        if self.grace_ns != 0 or self.recording.readers > 1:
            return False
        return self.end(Outcome.CANCELLED, CREDENTIAL_EXPIRED)

    def hand_over(self, retry_ms: int) -> bool:
        """End as shed, with a word to the readers on where to go on; False if it has ended."""
        text = msgspec.json.encode({"stream_id": self.id, "retry_ms": retry_ms})
        self._handover = text.decode()
        return self.end(Outcome.SHED)

    def _write_branch_end(
        self, branch: BranchRun, outcome: Outcome, failure: Failure | None = None
    ) -> None:
        failure, now = branch.failure(outcome, failure), self._wall_clock()
        branch.outcome = outcome
        if failure is not None:
            self.log.append(Kind.ERROR, failure.to_json(), branch=branch.index, time_ns=now)
        if len(self.branches) > 1:
            self.log.append(Kind.BRANCH_END, outcome, branch=branch.index, time_ns=now)

    def _branch_ended(self) -> None:
        outcomes = [branch.outcome for branch in self.branches if branch.outcome is not None]
        if len(outcomes) == len(self.branches):
            self.end(worst(outcomes))

    def _sum_up(self, outcome: Outcome) -> None:
        charged = [branch.charged for branch in self.branches if branch.charged is not None]
        if len(charged) < len(self.branches):
            return
        leases = [branch.lease for branch in self.branches]
        remaining = [left for lease in leases if (left := lease.remaining_tokens()) is not None]
        self._settlement = Settlement(
            charged=sum(charged),
            reserved=sum(lease.tokens for lease in leases),
            partial=outcome not in WHOLE,
            remaining_tokens=min(remaining, default=None),
        )

    def _write_end(self, outcome: Outcome) -> None:
        now = self._wall_clock()
        if self._handover is not None:
            self.log.append(Kind.HANDOVER, self._handover, time_ns=now)
        figures = None if self._settlement is None else self._settlement.to_json()
        self.log.close(outcome, figures, time_ns=now)

    def _ended(self) -> None:
        self.detached_ns = None
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        try:
            self._on_ended(self)
        finally:
            if self.recording.readers == 0:
                self._release()

    async def wait_ended(self) -> None:
        """Return once the outcome is decided."""
        if self.lifecycle.ended:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    # --- readers --------------------------------------------------------------------------------

    def attach(self) -> None:
        """One more reader follows this stream."""
        self.recording.attach()
        self.detached_ns = None
        if self.lifecycle.state is State.DETACHED:
            self._move(State.ACTIVE if self.log.tail else State.HANDSHAKING)

    def detach(self) -> None:
        """A reader left; a plain stream without readers has no reason to go on."""
        self.recording.detach()
        if self.recording.readers:
            return
        if self.lifecycle.ended:
            self._release()
        elif self.grace_ns == 0:
            self.end(Outcome.CLIENT_GONE)
        else:
            self.detached_ns = self._clock()
            self._move(State.DETACHED)

    def watched(self) -> None:
        """Somebody reads this stream elsewhere at this moment."""
        if self.detached_ns is not None:
            self.detached_ns = self._clock()

    def _release(self) -> None:
        if self.lifecycle.state is not State.CLOSED:
            self._move(State.CLOSED)
            self._on_closed(self)

    def _move(self, to: State) -> None:
        origin = self.lifecycle.move(to)
        self._observer.moved(self, origin, to)

    # --- what it is -----------------------------------------------------------------------------

    @property
    def model(self) -> str:
        """The first branch's model."""
        return self.branches[0].model

    @property
    def lease(self) -> Lease:
        """The first branch's lease."""
        return self.branches[0].lease

    @property
    def quota_remaining(self) -> int | None:
        """Tokens that were left in the tightest limit after all its leases; None is no limit."""
        left = [branch.lease.quota_remaining for branch in self.branches]
        return min((tokens for tokens in left if tokens is not None), default=None)

    @property
    def settlement(self) -> Settlement | None:
        """What it was charged in the end; None while it runs, and if a lease could not say."""
        return self._settlement

    @property
    def created(self) -> int:
        """Unix seconds of the admission."""
        return self.descriptor.created

    @property
    def usage(self) -> Usage:
        """What all branches together have used so far."""
        used = [branch.usage for branch in self.branches]
        return Usage(
            sum(usage.prompt_tokens for usage in used),
            sum(usage.completion_tokens for usage in used),
        )


def _take(*steps: Callable[[], object]) -> None:
    """Take every step, whatever becomes of the others; raises the first failure afterwards."""
    failure: BaseException | None = None
    for step in steps:
        try:
            step()
        except BaseException as error:
            failure = failure or error
    if failure is not None:
        raise failure
