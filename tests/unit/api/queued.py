"""A server whose model `q` takes one stream at a time and lets the others wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI

from millstream import app as assembly
from millstream.api.services import Services
from millstream.config import Settings, load_settings
from tests.unit.api.calls import Call, settle
from tests.unit.scripted_engine import ScriptedEngine
from tests.unit.streams.parts import ManualEngine

CONFIG = """
[models.m]
routes = [{ engine = "local" }]
max_tokens = 20

[models.q]
routes = [{ engine = "local" }]
max_tokens = 20
[models.q.limits]
requests = { per_minute = 60, burst = 50 }
tokens = { limit = 1000, window_ms = 60000 }
concurrency = 1
bytes_in_flight = { limit = 1048576, per_stream = 8192 }
queue = { deadline_seconds = 30 }

[models.few]
routes = [{ engine = "local" }]
limits = { tokens = { limit = 12, window_ms = 60000 } }

[tenants.default]
priority = 2
"""

MESSAGES = [{"role": "user", "content": "the capital"}]
ROUTES: dict[str, tuple[str, dict[str, object]]] = {
    "chat": ("/v1/chat/completions", {"messages": MESSAGES}),
    "chat streamed": ("/v1/chat/completions", {"messages": MESSAGES, "stream": True}),
    "completions": ("/v1/completions", {"prompt": "the capital"}),
    "completions streamed": ("/v1/completions", {"prompt": "the capital", "stream": True}),
    "responses": ("/v1/responses", {"input": "the capital"}),
    "responses streamed": ("/v1/responses", {"input": "the capital", "stream": True}),
    "native": ("/v1/streams", {"prompt": "the capital"}),
    "native background": ("/v1/streams", {"prompt": "the capital", "stream": False}),
}
everywhere = pytest.mark.parametrize("route", ROUTES)


def silent(_engine: ManualEngine, _request: int) -> None:
    """Take the request and say nothing."""


class QueuedServer:
    """An app, and clients of it."""

    def __init__(self, app: FastAPI, engine: ScriptedEngine) -> None:
        self.app, self.engine = app, engine
        self.services: Services = app.state.services
        self.admission = self.services.orchestrator.admission
        self.calls: list[Call] = []

    async def call(
        self, route: str = "chat", headers: dict[str, str] | None = None, **fields: object
    ) -> Call:
        path, body = ROUTES[route]
        call = Call(self.app, path, {"model": "q", **body, **fields}, headers)
        self.calls.append(call)
        await settle()
        return call

    async def holding(self) -> int:
        """A stream that goes on until `finish` of this request: whoever else comes has to wait."""
        script, self.engine.script = self.engine.script, silent
        await self.call("chat streamed")
        self.engine.script = script
        return max(self.engine.callbacks)

    async def finish(self, request: int) -> None:
        self.engine.finish(request, tokens=0)
        await settle()

    async def left(self) -> tuple[int, ...]:
        """Requests, tokens, places and KiB that are left."""
        snapshot = await self.admission.peek("default", "q")
        meters = (snapshot.requests, snapshot.tokens, snapshot.concurrency, snapshot.bytes)
        return tuple(meter.remaining for meter in meters if meter is not None)


def settings_in(folder: Path) -> Settings:
    path = folder / "queue.toml"
    path.write_text("[engines.local]\nmax_batch = 3\n" + CONFIG)
    return load_settings(path, environ={})


@asynccontextmanager
async def queued_server(engine: ScriptedEngine, folder: Path) -> AsyncIterator[QueuedServer]:
    app = assembly.create_app(settings_in(folder))
    async with app.router.lifespan_context(app):
        made = QueuedServer(app, engine)
        yield made
        for call in made.calls:
            await call.leave()
        await asyncio.gather(*(call.task for call in made.calls))
