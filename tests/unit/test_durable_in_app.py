"""The routes of durable streams as the whole app serves them, or not."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from millstream import app as assembly
from millstream.config import load_settings
from tests.unit.scripted_engine import ScriptedEngine


@asynccontextmanager
async def serving(folder: Path, toml: str) -> AsyncIterator[httpx.AsyncClient]:
    path = folder / "millstream.toml"
    path.write_text(toml)
    app = assembly.create_app(load_settings(path, environ={}))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            yield client


async def test_they_are_served_by_default(engine: ScriptedEngine, tmp_path: Path) -> None:
    async with serving(tmp_path, "") as client:
        assert (await client.put("/v1/durable/a", content=b"x")).status_code == 201
        assert (await client.get("/v1/durable/a")).content == b"x"
        assert (await client.get("/openapi.json")).status_code == 200


async def test_live_readers_are_let_go_when_the_worker_is_told_to_leave(
    engine: ScriptedEngine, tmp_path: Path
) -> None:
    async with serving(tmp_path, "[durable]\nlong_poll_seconds = 600\n") as client:
        await client.put("/v1/durable/a")
        waiting = asyncio.ensure_future(client.get("/v1/durable/a?offset=now&live=long-poll"))
        handler = signal.getsignal(signal.SIGTERM)
        assert callable(handler)
        handler(signal.SIGTERM, None)

        assert (await asyncio.wait_for(waiting, 30)).status_code == 204


async def test_a_second_worker_of_the_same_server_refuses(
    engine: ScriptedEngine, tmp_path: Path
) -> None:
    async with serving(tmp_path, "") as first, serving(tmp_path, "") as second:
        assert (await first.put("/v1/durable/a")).status_code == 201
        assert (await second.put("/v1/durable/a")).status_code == 501
        assert (await first.get("/v1/durable/a")).status_code == 200


async def test_several_workers_all_refuse(engine: ScriptedEngine, tmp_path: Path) -> None:
    async with serving(tmp_path, "[server]\nworkers = 2\n") as client:
        assert (await client.put("/v1/durable/a")).status_code == 501


async def test_they_can_be_switched_off(engine: ScriptedEngine, tmp_path: Path) -> None:
    async with serving(tmp_path, "[durable]\nenabled = false\n") as client:
        assert (await client.put("/v1/durable/a")).status_code == 404
