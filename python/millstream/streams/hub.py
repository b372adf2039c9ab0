"""The asyncio end of the token path: descriptors that wake readers, nothing per token."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from millstream import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from millstream._core import Log, Reader, RingConsumer


class Wakeups:
    """Wakes the readers of one event loop that appends from outside the ring concern.

    One per loop, made on it; `wait` is how a reader sleeps until something is due. Raises
    OSError if the system has no descriptor to give.
    """

    def __init__(self) -> None:
        self.notifier = _core.Notifier()
        self._loop = asyncio.get_running_loop()
        self._descriptor = self.notifier.fileno()
        self._loop.add_reader(self._descriptor, self._wake)
        self._closed = False

    async def wait(self, reader: Reader) -> None:
        """Return once something is due for the reader: records, a gap or the end."""
        future = self._loop.create_future()
        if not reader.park(future, self.notifier):
            return
        try:
            await future
        finally:
            reader.unpark()

    def close(self) -> None:
        """Take the descriptor off the loop, after a last look. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._descriptor)
        self._wake()

    def _wake(self) -> None:
        wake(self._loop, self.notifier.ready())


class Hub:
    """Drains one ring into the logs of its requests, on the loop of ``wakeups``.

    ``on_ended`` is called with each request whose USAGE or ERROR record has come; ``on_failed``
    once, with ConnectionError or OSError, if the ring can be read no more. The hub has left the
    loop by then.
    """

    def __init__(
        self,
        wakeups: Wakeups,
        ring: RingConsumer,
        on_ended: Callable[[int], None],
        on_failed: Callable[[OSError], None],
    ) -> None:
        # Keeps the ring, and so the watched descriptor, open until the hub has left the loop.
        self._ring = ring
        self._hub = _core.Hub(ring, wakeups.notifier)
        self._loop = asyncio.get_running_loop()
        self._descriptor = ring.fileno()
        self._on_ended = on_ended
        self._on_failed = on_failed
        self._closed = self._failed = False
        self._loop.add_reader(self._descriptor, self.drain)

    @property
    def dropped(self) -> int:
        """Records of unknown requests and of closed logs."""
        return self._hub.dropped

    @property
    def closed(self) -> bool:
        """Whether it has left the loop."""
        return self._closed

    def attach(self, request: int, log: Log, branch: int = 0) -> None:
        """Send a request's records to ``log``. Raises ValueError if it is attached already."""
        self._hub.attach(request, log, branch)

    def detach(self, request: int) -> None:
        """Append nothing more for this request. Idempotent."""
        self._hub.detach(request)

    def close(self) -> None:
        """Leave the loop; what is still in the ring stays there. Idempotent."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._descriptor)

    def drain(self) -> None:
        """Bring over what is due, as the loop does by itself; for a last look before `close`."""
        if self._failed:
            return
        try:
            waiters, ended = self._hub.drain()
        except OSError as error:
            self._failed = True
            self.close()
            self._on_failed(error)
            return
        wake(self._loop, waiters)
        for request in ended:
            contain(self._loop, self._on_ended, request)


def wake(loop: asyncio.AbstractEventLoop, waiters: Iterable[object]) -> None:
    """Wake each waiter, a future or a callable; a failing one does not keep the others asleep."""
    for waiter in waiters:
        if isinstance(waiter, asyncio.Future):
            contain(loop, _resolve, waiter)
        elif callable(waiter):
            contain(loop, waiter)
        else:
            message = f"waiter {waiter!r} is neither a future nor callable"
            loop.call_exception_handler({"message": message})


def contain(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: object) -> None:
    """Call, and give a failure to the loop's exception handler."""
    try:
        call(*args)
    except Exception as error:
        message = f"waking {call!r} failed"
        loop.call_exception_handler({"message": message, "exception": error})


def _resolve(future: asyncio.Future[None]) -> None:
    # Cancelled, or woken by its own timeout meanwhile.
    if not future.done():
        future.set_result(None)
