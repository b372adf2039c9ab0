"""Waiting for something as long as the client waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from millstream.streams.response import client_departure

if TYPE_CHECKING:
    from types import TracebackType

    from starlette.types import Receive


class ClientLeft(Exception):
    """The client has gone before it had an answer."""


class WhileConnected:
    """Gives up what is inside of it when the client leaves, and raises `ClientLeft` then.

    The body of the request has to be read before. What ends without waiting costs one scheduled
    call that does not come.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = False
        self._over = False
        self._departure: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("there is no task to give up")
        self._task = task
        self._cancelling = task.cancelling()
        self._start = asyncio.get_running_loop().call_soon(self._listen)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        # Whoever leaves in this very moment is heard by what comes next: to take a callback back
        # that is on its way already does nothing.
        self._over = True
        self._start.cancel()
        if self._departure is not None:
            self._departure.cancel()
        # As `asyncio.timeout` does: whoever else cancels the task means it.
        if (
            self._left
            and self._task.uncancel() <= self._cancelling
            and kind is asyncio.CancelledError
        ):
            raise ClientLeft from error

    def _listen(self) -> None:
        self._departure = asyncio.ensure_future(client_departure(self._receive))
        self._departure.add_done_callback(self._give_up)

    def _give_up(self, departure: asyncio.Task[None]) -> None:
        if departure.cancelled():
            return
        departure.exception()  # a connection that cannot be heard is gone as well
        if not self._over:
            self._left = True
            self._task.cancel()
