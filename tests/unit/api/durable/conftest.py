"""The routes alone, over clocks that the test turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from millstream.api import durable, errors
from millstream.config import DurableSettings

SECOND = 1_000_000_000
SETTINGS = DurableSettings(
    max_streams=3,
    max_stream_bytes=8192,
    max_path_bytes=40,
    max_read_bytes=1024,
    long_poll_seconds=30,
)


@dataclass
class Stand:
    """What a test turns: time, tenant, leaving."""

    now_ns: int = 0
    tenant: str | None = None
    leaving: bool = False
    app: FastAPI = field(default_factory=FastAPI)

    @property
    def service(self) -> durable.DurableService:
        found: durable.DurableService = self.app.state.durable
        return found

    def change(self, **changes: object) -> None:
        """Serve with these fields of the service instead."""
        self.app.state.durable = replace(self.service, **changes)  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {} if self.tenant is None else {"tenant": self.tenant}
        await self.app(scope, receive, send)


@pytest.fixture
def stand() -> Stand:
    stand = Stand()
    stand.app.state.durable = durable.DurableService(
        durable.new_registry(SETTINGS, leaving=lambda: stand.leaving),
        SETTINGS,
        serves=lambda: True,
        max_body_bytes=6000,
        body_seconds=10,
        keep_alive_seconds=10,
        blocked_send_seconds=10,
        clock=lambda: stand.now_ns,
        wall_clock=lambda: stand.now_ns,
        jitter=lambda _: 0,
    )
    stand.app.include_router(durable.router)
    errors.install(stand.app)
    return stand


@pytest.fixture
async def client(stand: Stand) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(stand)
    async with httpx.AsyncClient(transport=transport, base_url="http://test/v1/durable") as client:
        yield client
