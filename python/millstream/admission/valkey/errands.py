"""Carries calls to Valkey, all that wait in one exchange."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from valkey.exceptions import ResponseError

from millstream.admission.valkey.link import Link, Lost
from millstream.admission.valkey.outage import Outage, Unreachable
from millstream.admission.valkey.script import answers_of, commands_of
from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from millstream.admission.valkey.script import Call

_log = get_logger(__name__)

BATCH = 128
MOST_REFUSALS = 3

Answer = asyncio.Future[object]

Unwanted = Callable[[object], None]
"""Told the answer, or the `Unreachable`, to a call whose caller is gone."""


class Errand:
    """A call on its way; ``again`` is what to send if it may have been carried out already.

    With an ``answer`` it fails if Valkey is away; without one it is kept until it has arrived, or
    until ``deadline_ns``, when it would find nothing any more.
    """

    __slots__ = ("again", "answer", "call", "deadline_ns", "refusals", "unwanted")

    def __init__(
        self,
        call: Call,
        *,
        again: Call | None = None,
        answer: Answer | None = None,
        unwanted: Unwanted | None = None,
        deadline_ns: int = 0,
    ) -> None:
        self.call = call
        self.again = again or call
        self.answer = answer
        self.unwanted = unwanted
        self.deadline_ns = deadline_ns
        self.refusals = 0

    @property
    def is_wanted(self) -> bool:
        """False once the caller is gone: then it need not be sent."""
        return self.answer is None or not self.answer.cancelled()

    def succeed(self, answer: object) -> None:
        """Tell whoever waits for the answer, if anybody does."""
        if self.answer is None:
            return
        if not self.answer.cancelled():
            self.answer.set_result(answer)
        elif self.unwanted is not None:
            self.unwanted(answer)

    def fail(self, error: Unreachable) -> None:
        """As above."""
        if self.answer is None:
            return
        if not self.answer.cancelled():
            self.answer.set_exception(error)
        elif self.unwanted is not None:
            self.unwanted(error)


class Errands:
    """One task; `run` is its body. ``probe`` asks whether Valkey would carry out calls again."""

    def __init__(
        self, link: Link, outage: Outage, probe: Call, *, clock: Callable[[], int]
    ) -> None:
        self._link = link
        self._outage = outage
        self._probe = Errand(probe)
        self._clock = clock
        self._waiting: deque[Errand] = deque()
        self._some = asyncio.Event()
        self._none = asyncio.Event()
        self._none.set()
        self._closed = False
        self.recovered = asyncio.Event()

    def ask(
        self, call: Call, *, again: Call | None = None, unwanted: Unwanted | None = None
    ) -> Answer:
        """The answer to come; raises `Unreachable` at once while Valkey is known to be away.

        Cancelled before it is sent, the call is not made; later, ``unwanted`` is told the answer.
        """
        if self._closed or self._outage.up is False:
            raise Unreachable("the shared counters are away", sent=False)
        answer: Answer = asyncio.get_running_loop().create_future()
        self._waiting.append(Errand(call, again=again, answer=answer, unwanted=unwanted))
        self._wake()
        return answer

    def tell(self, call: Call, *, deadline_ns: int) -> None:
        """See to it that this arrives, however often Valkey goes away until ``deadline_ns``.

        It goes before what is asked: an ending makes room for the next decision.
        """
        self._waiting.appendleft(Errand(call, deadline_ns=deadline_ns))
        self._wake()

    async def probe(self) -> bool:
        """Try whether Valkey carries out calls, and tell everybody."""
        try:
            (answer,) = await self._exchange([self._probe])
        except Unreachable as error:
            self._outage.failed(str(error))
            return False
        if isinstance(answer, ResponseError):
            self._outage.failed(str(answer))
            return False
        self._outage.ended()
        self.recovered.set()
        return True

    async def run(self) -> None:
        """Carry until cancelled."""
        try:
            while True:
                try:
                    await self._run()
                except Exception as error:  # a defect must not end it: nothing would be counted
                    _log.error("limiter_task_failed", error=error)
                    self._outage.failed(type(error).__name__)
        finally:
            self._closed = True
            self._give_back([], Unreachable("the limiter is closed", sent=False))
            self._lost("settlements_left", len(self._waiting))

    async def _run(self) -> None:
        while True:
            if self._outage.up is False:
                await asyncio.sleep(self._outage.pause_seconds())
                self._drop_late()
                await self.probe()
                continue
            await self._some.wait()
            batch = self._next_batch()
            if batch:
                await self._carry(batch)
            self._settle_events()

    async def drain(self) -> None:
        """Return when everything has arrived or is given up."""
        await self._none.wait()

    def _wake(self) -> None:
        self._some.set()
        self._none.clear()

    def _next_batch(self) -> list[Errand]:
        size = min(len(self._waiting), BATCH)
        errands = (self._waiting.popleft() for _ in range(size))
        return [errand for errand in errands if errand.is_wanted]

    def _settle_events(self) -> None:
        if not self._waiting:
            self._some.clear()
            self._none.set()

    async def _carry(self, batch: Sequence[Errand]) -> None:
        try:
            answers = await self._exchange(batch)
        except Unreachable as error:
            self._outage.failed(str(error))
            self._give_back(batch, error)
            return
        except BaseException:
            self._give_back(batch, Unreachable("the limiter is closed", sent=True))
            raise
        refused = False
        for errand, answer in zip(batch, answers, strict=True):
            if isinstance(answer, ResponseError):
                self._refused(errand, answer)
                refused = True
            else:
                errand.succeed(answer)
        if not refused:
            self._outage.answered()

    async def _exchange(self, batch: Sequence[Errand]) -> list[object]:
        try:
            return await self._answers([errand.call for errand in batch])
        except Lost:
            pass
        try:
            return await self._answers([errand.again for errand in batch])
        except Lost as error:
            raise Unreachable("the connection is lost again and again", sent=True) from error

    async def _answers(self, calls: Sequence[Call]) -> list[object]:
        """The answer to each call, or the `ResponseError` to the command that it was part of."""
        commands, places = commands_of(calls)
        replies = await self._link.exchange(commands)
        answers = [
            [reply] * len(command.items) if isinstance(reply, ResponseError) else answers_of(reply)
            for command, reply in zip(commands, replies, strict=True)
        ]
        return [answers[number][place] for number, place in places]

    def _give_back(self, batch: Sequence[Errand], error: Unreachable) -> None:
        """Keep what must arrive; what waits for an answer has to do without."""
        unsent = list(self._waiting)
        self._waiting = deque(errand for errand in (*batch, *unsent) if errand.answer is None)
        for errand in batch:
            errand.fail(error)
        for errand in unsent:
            errand.fail(Unreachable(str(error), sent=False))
        self._settle_events()

    def _refused(self, errand: Errand, refusal: ResponseError) -> None:
        error = Unreachable(str(refusal), sent=True)
        self._outage.failed(str(error))
        errand.fail(error)
        if errand.answer is not None:
            return
        errand.refusals += 1
        if errand.refusals < MOST_REFUSALS:
            self._waiting.append(errand)
            self._wake()
        else:
            self._lost("settlements_refused", 1)

    def _drop_late(self) -> None:
        now_ns = self._clock()
        kept = [errand for errand in self._waiting if errand.deadline_ns > now_ns]
        self._lost("settlements_expired", len(self._waiting) - len(kept))
        self._waiting = deque(kept)
        self._settle_events()

    def _lost(self, event: str, count: int) -> None:
        """Tell of leases that will expire, at their reserved cost."""
        if count:
            _log.warning(event, count=count)
