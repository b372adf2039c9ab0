"""The routes of durable streams alone, without engine and model: what the suite talks to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from millstream.api import durable, errors
from millstream.config import DurableSettings, ServerSettings, StreamSettings
from millstream.streams.sweeper import Sweeper

# Vitest gives a test 5 s, and several of the suite's wait for a long poll to end.
SETTINGS = DurableSettings(long_poll_seconds=2.0)


def make_app(
    settings: DurableSettings = SETTINGS,
    *,
    server: ServerSettings = ServerSettings(),  # noqa: B008 - frozen
    streams: StreamSettings = StreamSettings(),  # noqa: B008 - frozen
) -> FastAPI:
    """An app with its own registry."""
    registry = durable.new_registry(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        sweeper = Sweeper([registry])
        sweeper.start()
        try:
            yield
        finally:
            sweeper.close()
            registry.close()

    app = FastAPI(lifespan=lifespan)
    app.state.durable = durable.DurableService(
        registry,
        settings,
        serves=lambda: True,
        max_body_bytes=server.max_body_bytes,
        body_seconds=server.body_seconds,
        keep_alive_seconds=streams.keep_alive_seconds,
        blocked_send_seconds=streams.blocked_send_seconds,
    )
    app.include_router(durable.router)
    app.add_api_route("/readyz", _ready)
    errors.install(app)
    return app


async def _ready() -> dict[str, str]:
    return {"status": "ready"}


app = make_app()
"""For ``granian --interface asgi tests.conformance.durable_app:app``."""
