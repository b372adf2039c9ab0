"""From a reader to an ASGI ``send``, without waking a task for every batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

from millstream.types import Outcome

if TYPE_CHECKING:
    from starlette.types import Message, Send

    from millstream._core import Notifier
    from millstream.streams.expiry import Expiry
    from millstream.streams.frames import FrameReader
    from millstream.streams.source import StreamSource

MAX_SEND_BYTES = 65536
"""What one delivery holds of its stream at most, but for the frame that reaches it: a client that
does not read costs this much here, and the server's and the kernel's buffers. Only the gap frame
of a native reader that was left behind may be larger: it holds what the log keeps of the text."""
# One newline: openai-python dispatches on a blank line once it has seen an `id:`, and then
# fails on the empty data.
KEEP_ALIVE = b":\n"


class _Suspended:
    """A ``send`` that did not finish at once, to be awaited by the request's task."""

    __slots__ = ("_first", "_steps")

    def __init__(self, steps: Generator[Any, None, Any], first: object) -> None:
        self._steps = steps
        self._first = first

    def __await__(self) -> Generator[Any, None, None]:
        # A future marks itself as awaited just before it is yielded, and the task resets that
        # mark on receipt: what was taken by hand can be passed on as it is.
        yield self._first
        yield from self._steps


class Delivery:
    """One response under way.

    The reader's waiter is `wake`, which the hub calls on the loop: it sends what is due there and
    then. Only when ``send`` suspends (the client reads slowly), or the stream ends, does the
    request's task run again. That saves a future and a task switch for every batch (measured by
    ``benches/bench_delivery.py``).

    ``preface`` is sent first. ``overrun`` makes the frame for a reader that the log has left
    behind; with ``skips_gaps`` it then goes on with what is kept, else its body is cut. So is that
    of a stream that did not end well, unless the dialect has a ``typed_end``, a last frame that
    says how. ``begun`` is called with the first message that is not a comment.
    ``keep_alive_ns`` and ``blocked_send_ns`` are for `Deliveries`, which calls `cut` by ``expiry``.
    """

    def __init__(
        self,
        stream: StreamSource,
        reader: FrameReader,
        send: Send,
        *,
        notifier: Notifier,
        postpone: Callable[[Delivery], bool] | None,
        overrun: Callable[[FrameReader], bytes],
        skips_gaps: bool = False,
        typed_end: bool = False,
        preface: bytes = b"",
        begun: Callable[[], None] | None = None,
        keep_alive_ns: int | None,
        blocked_send_ns: int,
        expiry: Expiry | None = None,
        clock: Callable[[], int],
    ) -> None:
        self.keep_alive_ns = keep_alive_ns
        self.blocked_send_ns = blocked_send_ns
        self.sent_ns = 0
        self.blocked_since_ns: int | None = None
        self._stream = stream
        self._reader = reader
        self._direct = send
        self._send = send if begun is None else self._first
        self._begun = begun
        self._notifier = notifier
        self._postpone = postpone
        self._waiter = self.flush if postpone is None else self.wake
        self._overrun = overrun
        self._skips_gaps = skips_gaps
        self._typed_end = typed_end
        self._preface = preface
        self._expiry = expiry
        self._clock = clock
        self._farewell: bytes | None = None
        self._cut = False
        self._over = False
        self._dropped = False
        self._task: asyncio.Task[object] | None = None
        self._resume: asyncio.Future[_Suspended | None] | None = None

    # --- the request's task -------------------------------------------------------------------

    async def run(self) -> None:
        """Deliver until the stream has ended, the client has left, or `drop` is called."""
        self._task = asyncio.current_task()
        try:
            if self._preface:
                await self._blocking(self._send(_body(self._preface)))
            while not self._over:
                message = self._next()
                if message is not None:
                    await self._blocking(self._send(message))
                elif not self._over:
                    await self._idle()
        except asyncio.CancelledError:
            if not self._dropped or self._task is None or self._task.uncancel() > 0:
                raise
        finally:
            self._over = True
            self._reader.unpark()

    async def _idle(self) -> None:
        self._resume = asyncio.get_running_loop().create_future()
        try:
            if self._reader.park(self._waiter, self._notifier):
                suspended = await self._resume
                if suspended is not None:
                    await self._blocking(suspended)
        finally:
            self._resume = None

    async def _blocking(self, sending: Awaitable[None] | _Suspended) -> None:
        self.blocked_since_ns = self._clock()
        try:
            await sending
        finally:
            self.blocked_since_ns = None
            self.sent_ns = self._clock()

    def _next(self) -> Message | None:
        """What is due as one message; sets ``_over`` with the last one."""
        if self._farewell is not None:
            self._over = True
            return _body(self._farewell, more=not self._typed_end)
        chunk = self._reader.take(MAX_SEND_BYTES)
        if self._reader.finished:
            self._over = True
            return self._last(chunk)
        if self._reader.gap is not None:
            return self._left_behind()
        if not chunk:
            return None
        self._stream.mark_active()
        return _body(chunk)

    def _left_behind(self) -> Message:
        frame = self._overrun(self._reader)
        self._over = not (self._skips_gaps and self._reader.skip_gap())
        return _body(frame)

    def _last(self, chunk: bytes) -> Message | None:
        if self._typed_end or self._stream.outcome in (Outcome.COMPLETED, Outcome.LENGTH):
            return _body(chunk, more=False)
        # Without a final message the server cuts the body, and the client sees it as cut.
        return _body(chunk) if chunk else None

    # --- callbacks on the loop ------------------------------------------------------------------

    def wake(self) -> None:
        """Records are due: send them now, or with what comes within the coalescing window."""
        if self._postpone is None or not self._postpone(self):
            self.flush()

    def flush(self) -> None:
        """Send what is due; hand over to the task where that cannot be done at once."""
        if self._resume is None or self._resume.done():
            return
        try:
            suspended = self._send_due()
        except Exception as error:
            self._resume.set_exception(error)
            return
        if suspended is not None or self._over:
            self._resume.set_result(suspended)

    def _send_due(self) -> _Suspended | None:
        while not self._over:
            message = self._next()
            if message is not None:
                suspended = self._send_now(self._send(message))
                if suspended is not None:
                    return suspended
            elif not self._over and self._reader.park(self._waiter, self._notifier):
                return None
        return None

    def _send_now(self, sending: Awaitable[None]) -> _Suspended | None:
        steps = sending.__await__()
        try:
            first = next(steps)
        except StopIteration:
            self.sent_ns = self._clock()
            return None
        return _Suspended(steps, first)

    def _first(self, message: Message) -> Awaitable[None]:
        # Later messages pay nothing for it.
        self._send = self._direct
        if self._begun is not None:
            self._begun()
        return self._direct(message)

    def leave(self) -> None:
        """The client has left: stop, whatever the task waits for."""
        self._over = True
        if self._resume is not None and not self._resume.done():
            self._resume.set_result(None)

    def drop(self) -> None:
        """Give up a client that does not read: cancel the ``send`` that blocks."""
        if self._task is not None and self.blocked_since_ns is not None:
            self._dropped = True
            self._over = True
            self._task.cancel()

    def cut(self) -> None:
        """The credential has expired: say so and end; give up a client that does not even read."""
        if self._cut or self._expiry is None:
            self.drop()
            return
        self._cut = True
        if not self._expiry.ends_stream():
            self._farewell = self._expiry.frame
        self.flush()

    def keep_alive(self) -> None:
        """Send a comment if the task has nothing else to send at the moment."""
        if self._resume is None or self._resume.done():
            return
        suspended = self._send_now(self._direct(_body(KEEP_ALIVE)))
        if suspended is not None:
            self._reader.unpark()
            self._resume.set_result(suspended)


def _body(chunk: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": chunk, "more_body": more}
