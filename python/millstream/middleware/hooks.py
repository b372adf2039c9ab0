"""Hooks around the life of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic_ns
from typing import TYPE_CHECKING

from millstream.middleware.ending import ended_by
from millstream.middleware.request_life import RequestLife
from millstream.middleware.response_start import response_start
from millstream.middleware.state import state_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from millstream.middleware.hook_events import RequestHooks

LAST_WORDS_SECONDS = 5.0
"""How long the end of the server waits for hooks that run."""


class HookMiddleware:
    """Lets ``hooks`` hear of every request: admitted, first byte, outcome.

    It stands outside of whatever may refuse, so that a refusal has its outcome too. Who admits
    says so: `LimitMiddleware`, Millstream's routes, or an app by ``scope["state"]["life"]``. At
    shutdown the hooks that still run are waited for, for five seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        hooks: Iterable[RequestHooks],
        *,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.app = app
        self._hooks = tuple(hooks)
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if not self._hooks or scope["type"] not in ("http", "lifespan"):
            await self.app(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, self._after_last_words(send))
        else:
            await self._request(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, send = response_start(scope, send)
        life = RequestLife(scope, start, self._hooks, tasks=self._tasks, clock=self._clock)
        state_of(scope)["life"] = life
        start.on_body(life.first_byte)
        await ended_by(self.app(scope, receive, send), scope, start, life.ended)

    def _after_last_words(self, send: Send) -> Send:
        async def after(message: Message) -> None:
            if message["type"].startswith("lifespan.shutdown."):
                await self._finish()
            await send(message)

        return after

    async def _finish(self) -> None:
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=LAST_WORDS_SECONDS)
            for task in late:
                task.cancel()
