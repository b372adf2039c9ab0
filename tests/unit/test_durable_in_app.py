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
from tests.waiting import HANG_SECONDS


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


async def test_live_readers_are_let_go_when_the_worker_is_told_to_leave(
    engine: ScriptedEngine, tmp_path: Path
) -> None:
    async with serving(tmp_path, "[durable]\nlong_poll_seconds = 600\n") as client:
        await client.put("/v1/durable/a")
        waiting = asyncio.ensure_future(client.get("/v1/durable/a?offset=now&live=long-poll"))
        handler = signal.getsignal(signal.SIGTERM)
        assert callable(handler)
        handler(signal.SIGTERM, None)

        assert (await asyncio.wait_for(waiting, HANG_SECONDS)).status_code == 204


async def test_a_page_that_is_named_may_write_and_sees_where_it_is(
    engine: ScriptedEngine, tmp_path: Path
) -> None:
    page = "https://app.example"
    toml = f'[server]\ncors_origins = ["{page}"]\n'
    asked = {
        "origin": page,
        "access-control-request-method": "PUT",
        "access-control-request-headers": "content-type, stream-ttl, if-none-match",
    }
    async with serving(tmp_path, toml) as client:
        assert (await client.options("/v1/durable/a", headers=asked)).status_code == 200
        made = await client.put("/v1/durable/a", headers={"origin": page})

    assert made.headers["access-control-allow-origin"] == page
    exposed = made.headers["access-control-expose-headers"].split(", ")
    assert {"Stream-Next-Offset", "Stream-Closed", "ETag", "X-Stream-Id"} <= set(exposed)


async def test_two_workers_of_the_same_server_refuse_while_both_live(
    engine: ScriptedEngine, tmp_path: Path
) -> None:
    # A request may reach either of them, and each knows its own streams only.
    async with serving(tmp_path, "") as first:
        assert (await first.put("/v1/durable/a")).status_code == 201
        async with serving(tmp_path, "") as second:
            for client in (first, second):
                assert (await client.put("/v1/durable/a")).status_code == 501
        assert (await first.get("/v1/durable/a")).status_code == 200


async def test_several_workers_all_refuse(engine: ScriptedEngine, tmp_path: Path) -> None:
    async with serving(tmp_path, "[server]\nworkers = 2\n") as client:
        assert (await client.put("/v1/durable/a")).status_code == 501


async def test_they_can_be_switched_off(engine: ScriptedEngine, tmp_path: Path) -> None:
    async with serving(tmp_path, "[durable]\nenabled = false\n") as client:
        assert (await client.put("/v1/durable/a")).status_code == 404
