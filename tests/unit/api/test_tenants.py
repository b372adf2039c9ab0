"""A stream belongs to its tenant, and so does a key."""

from __future__ import annotations

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.unit.api.test_streams import ASKED, STREAMS
from tests.unit.scripted_engine import ScriptedEngine


def tenant(client: httpx.AsyncClient, name: str) -> httpx.AsyncClient:
    """A client whose requests some middleware has found to be of this tenant."""
    inner: ASGIApp = client._transport.app  # type: ignore[attr-defined]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {"tenant": name}
        await inner(scope, receive, send)

    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


@pytest.mark.parametrize("stream", [True, False])
async def test_another_tenants_stream_does_not_exist(
    client: httpx.AsyncClient, stream: bool
) -> None:
    # MCP servers#4087, frontmcp GHSA-84j6-jc92-77jm: a replay showed another session's events.
    async with tenant(client, "a") as a, tenant(client, "b") as b:
        made = await a.post(STREAMS, json={**ASKED, "stream": stream})
        url = f"{STREAMS}/{made.headers['x-stream-id']}"
        foreign = [await b.get(url), await b.post(f"{url}/cancel"), await client.get(url)]
        unknown = await b.get(f"{STREAMS}/unknown")
        for refused in foreign:
            assert refused.status_code == 404
            assert refused.json()["error"]["code"] == unknown.json()["error"]["code"]
        assert (await a.get(url)).status_code == 200


async def test_two_tenants_may_use_the_same_key(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    headers = {"Idempotency-Key": "k"}
    async with tenant(client, "a") as a, tenant(client, "b") as b:
        made = [await one.post(STREAMS, json=ASKED, headers=headers) for one in (a, b)]
    assert len({one.headers["x-stream-id"] for one in made}) == 2
    assert len(engine.submitted) == 2
