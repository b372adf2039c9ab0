"""A server of a key set, as an issuer has one, which can change, stall, lie and go away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class KeyServer:
    """Answers ``/jwks.json`` with ``body`` and counts how often."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    thinks_seconds: float = 0
    asked: int = 0
    port: int = 0
    open: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/jwks.json"

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        self.arrived.set()
        await self.open.wait()
        await asyncio.sleep(self.thinks_seconds)
        return web.Response(body=self.body, status=self.status, headers=self.headers)

    async def up(self) -> None:
        """Listen, on the same port as before if there was one."""
        app = web.Application()
        app.router.add_get("/jwks.json", self.answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def down(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


@contextlib.asynccontextmanager
async def key_server(body: bytes) -> AsyncIterator[KeyServer]:
    """A running server that answers at once until its ``open`` is cleared."""
    server = KeyServer(body)
    server.open.set()
    await server.up()
    try:
        yield server
    finally:
        server.open.set()
        await server.down()
