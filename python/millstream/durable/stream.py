"""One stream: its content, its producers, and whether it takes more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from millstream.durable.budget import Budget
from millstream.durable.content import ByteContent, Content, Extract, JsonContent, cost
from millstream.durable.content_type import ContentType
from millstream.durable.expiry import Expiry, Lifetime, TimeToLive
from millstream.durable.messages import split_messages
from millstream.durable.offsets import format_offset
from millstream.durable.producers import ProducerMark, Producers
from millstream.durable.refusals import Reason, Refusal
from millstream.durable.waiters import Waiters


@dataclass(frozen=True, slots=True)
class Append:
    """What a writer asks for; an empty body is only right with ``close``."""

    body: bytes
    content_type: ContentType | None = None
    close: bool = False
    sequence: str | None = None
    """The writer's own order, compared byte by byte; one such order a stream."""
    producer: ProducerMark | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """Done, now or (``duplicate``) by an earlier request."""

    duplicate: bool = False
    producer_sequence: int | None = None
    """The highest sequence taken from the producer, if there is one."""


class DurableStream:
    """Every change is one synchronous step, so that readers and writers see whole ones only."""

    def __init__(
        self,
        stream_id: str,
        content_type: ContentType,
        lifetime: Lifetime,
        *,
        max_bytes: int,
        budget: Budget,
    ) -> None:
        self.id = stream_id
        self.content_type = content_type
        self.lifetime = lifetime
        self.closed = False
        self.gone = False
        """Deleted or expired: whoever still reads it stops."""
        self.charged = 0
        """Bytes of the budget that it holds."""
        self.waiters = Waiters()
        self._readers = 0
        self._content: Content = JsonContent() if content_type.is_json else ByteContent()
        self._producers = Producers()
        self._sequence: str | None = None
        self._closed_by: ProducerMark | None = None
        self._max_bytes = max_bytes
        self._budget = budget

    @property
    def tail(self) -> int:
        """The position behind the last one."""
        return self._content.tail

    @property
    def expiry(self) -> Expiry:
        """What its creator asked for."""
        return self.lifetime.expiry

    def offset(self, position: int | None = None) -> str:
        """The token of a position, by default of the tail."""
        return format_offset(self.tail if position is None else position, self.id)

    # --- reading ------------------------------------------------------------------------------

    def read(self, position: int, max_bytes: int) -> Extract:
        """Content from ``position``, which must not be behind the tail."""
        return self._content.read(position, max_bytes)

    @contextmanager
    def reading(self, clock: Callable[[], int]) -> Iterator[None]:
        """Count as a live reader: idle time begins when the last one has left."""
        self.lifetime.touch(clock())
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1
            self.lifetime.touch(clock())

    def over(self, now_ns: int) -> bool:
        """Whether its time has passed; an idle time does not while somebody reads it live."""
        if self._readers and isinstance(self.expiry, TimeToLive):
            self.lifetime.touch(now_ns)
            return False
        deadline = self.lifetime.deadline_ns()
        return deadline is not None and now_ns >= deadline

    # --- writing ------------------------------------------------------------------------------

    def append(self, request: Append, now_ns: int) -> Appended | Refusal:
        """Append, close or both, in one step; a refusal leaves everything as it was."""
        self._release(self._producers.forget(now_ns))
        answer = self._after_the_end(request) if self.closed else self._append(request, now_ns)
        if isinstance(answer, Appended):
            self.lifetime.touch(now_ns)
        return answer

    def _append(self, request: Append, now_ns: int) -> Appended | Refusal:
        parts = self._parts(request)
        if isinstance(parts, Refusal):
            return parts
        mark = request.producer
        verdict = self._producers.judge(mark) if mark is not None else "new"
        if isinstance(verdict, Refusal):
            return verdict
        if verdict == "duplicate":
            return self._appended(mark, duplicate=True)
        refusal = self._out_of_sequence(request) or self.charge(self._cost(parts, mark))
        if refusal is not None:
            return refusal
        self._commit(request, parts, now_ns)
        return self._appended(mark)

    def fill(self, body: bytes) -> Refusal | None:
        """Put the first content in, on creation; here an empty array is no mistake."""
        try:
            parts = self._split(body) if body else []
        except ValueError as error:
            return Refusal(Reason.NOT_JSON, str(error))
        refusal = self.charge(cost(parts, messages=self.content_type.is_json))
        if refusal is None:
            self._content.append(parts)
        return refusal

    def charge(self, amount: int) -> Refusal | None:
        """Hold ``amount`` bytes more of the budget."""
        if self.charged + amount > self._max_bytes:
            message = f"The stream would exceed durable.max_stream_bytes = {self._max_bytes}."
            return Refusal(Reason.STREAM_FULL, message)
        if not self._budget.take(amount):
            limit = self._budget.max_bytes
            message = f"All streams together would exceed durable.max_bytes = {limit}."
            return Refusal(Reason.STORE_FULL, message)
        self.charged += amount
        return None

    def end(self) -> None:
        """It exists no more: give its bytes back and let readers see it."""
        self.gone = True
        self._budget.give(self.charged)
        self.charged = 0
        self.waiters.wake()

    def _after_the_end(self, request: Append) -> Appended | Refusal:
        mark = request.producer
        if mark is not None and mark == self._closed_by:
            return self._appended(mark, duplicate=True)
        if mark is None and request.close and not request.body:
            return Appended(duplicate=True)
        return Refusal(Reason.CLOSED, "The stream is closed.")

    def _parts(self, request: Append) -> list[bytes] | Refusal:
        if not request.body:
            message = "An append has a body; only Stream-Closed: true may come without one."
            return [] if request.close else Refusal(Reason.EMPTY, message)
        if request.content_type is None:
            return Refusal(Reason.NO_CONTENT_TYPE, "An append with a body has a Content-Type.")
        if request.content_type.essence != self.content_type.essence:
            message = f"The stream holds {self.content_type.essence}."
            return Refusal(Reason.CONTENT_TYPE, message)
        try:
            parts = self._split(request.body)
        except ValueError as error:
            return Refusal(Reason.NOT_JSON, str(error))
        return parts or Refusal(Reason.EMPTY, "An empty array holds no message.")

    def _split(self, body: bytes) -> list[bytes]:
        return split_messages(body) if self.content_type.is_json else [body]

    def _out_of_sequence(self, request: Append) -> Refusal | None:
        last, given = self._sequence, request.sequence
        if last is None or given is None or given > last:
            return None
        message = f"Stream-Seq must be greater than {last!r}."
        return Refusal(Reason.SEQUENCE, message)

    def _cost(self, parts: list[bytes], mark: ProducerMark | None) -> int:
        remembered = self._producers.cost(mark) if mark is not None else 0
        return cost(parts, messages=self.content_type.is_json) + remembered

    def _release(self, amount: int) -> None:
        self.charged -= amount
        self._budget.give(amount)

    def _commit(self, request: Append, parts: list[bytes], now_ns: int) -> None:
        self._content.append(parts)
        if request.producer is not None:
            self._producers.accept(request.producer, now_ns)
        if request.sequence is not None:
            self._sequence = request.sequence
        if request.close:
            self.closed = True
            self._closed_by = request.producer
        self.waiters.wake()

    def _appended(self, mark: ProducerMark | None, *, duplicate: bool = False) -> Appended:
        highest = None if mark is None else self._producers.highest(mark)
        return Appended(duplicate, highest)
