"""Paths and methods that are not what a client took them for."""

from __future__ import annotations

import httpx
import pytest

ALLOWED = {
    "/healthz": "GET, HEAD",
    "/metrics": "GET, HEAD",
    "/v1/models": "GET, HEAD",
    "/v1/models/m": "GET, HEAD",
    "/v1/chat/completions": "POST",
    "/v1/streams/x": "GET, HEAD",
    "/v1/streams/x/cancel": "POST",
    "/v1/responses/resp_x": "DELETE, GET",
    "/v1/durable/a": "DELETE, GET, HEAD, OPTIONS, POST, PUT",
}


@pytest.mark.parametrize(("path", "methods"), ALLOWED.items())
async def test_a_method_that_a_path_has_not_is_told_all_that_it_has(
    client: httpx.AsyncClient, path: str, methods: str
) -> None:
    # RFC 9110, 15.5.6: the router named the methods of the first route alone.
    refused = await client.request("PATCH", path)
    assert refused.status_code == 405
    assert refused.headers["allow"] == methods
    assert refused.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/v1/models", "/v1/models/m"])
async def test_a_head_is_answered_where_a_get_is(client: httpx.AsyncClient, path: str) -> None:
    head, get = await client.head(path), await client.get(path)
    assert head.status_code == get.status_code == 200
    assert head.headers["content-type"] == get.headers["content-type"]
    assert head.content == b""


async def test_nobody_is_sent_elsewhere_for_a_slash_too_many(client: httpx.AsyncClient) -> None:
    # Behind a proxy the address would be this server's own, and without TLS.
    answer = await client.post("/v1/chat/completions/", json={})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/streams/none"),
        ("GET", "/nowhere"),
        ("PUT", "/v1/models"),
        ("GET", "/v1/models/x"),
    ],
)
async def test_no_cache_keeps_an_error(client: httpx.AsyncClient, method: str, path: str) -> None:
    # RFC 9111, 4.2.2: a 404, 405 or 410 that says nothing may be kept.
    assert (await client.request(method, path)).headers["cache-control"] == "no-store"
