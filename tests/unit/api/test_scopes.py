"""Every route names the scope that it needs."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from fastapi.routing import iter_route_contexts
from starlette.requests import Request

from millstream.api.scopes import OPEN_PATHS, Requires
from millstream.app import create_app
from millstream.config import Settings, load_settings
from millstream.errors import NotAllowed
from millstream.identity.api_keys import new_key
from millstream.identity.key_file import changing

CONFIG = """
[models.m]
routes = [{ engine = "local" }]
[auth]
mode = "required"
keys_file = "KEYS"
[tenants.acme]
[tenants.other]
"""

SCOPES = {
    ("GET", "/admin/config"): "admin:config",
    ("DELETE", "/v1/durable/{path:path}"): "durable:write",
    ("DELETE", "/v1/responses/{response_id}"): "streams:cancel",
    ("GET", "/metrics"): "metrics:read",
    ("GET", "/v1/durable/{path:path}"): "durable:read",
    ("GET", "/v1/models"): "models:read",
    ("GET", "/v1/models/{name:path}"): "models:read",
    ("GET", "/v1/responses/{response_id}"): "streams:read",
    ("GET", "/v1/streams/{stream_id}"): "streams:read",
    ("HEAD", "/metrics"): "metrics:read",
    ("HEAD", "/v1/durable/{path:path}"): "durable:read",
    ("HEAD", "/v1/models"): "models:read",
    ("HEAD", "/v1/models/{name:path}"): "models:read",
    ("HEAD", "/v1/streams/{stream_id}"): "streams:read",
    ("POST", "/v1/chat/completions"): "chat:create",
    ("POST", "/v1/completions"): "chat:create",
    ("POST", "/v1/durable/{path:path}"): "durable:write",
    ("POST", "/v1/responses"): "chat:create",
    ("POST", "/v1/responses/{response_id}/cancel"): "streams:cancel",
    ("POST", "/v1/streams"): "chat:create",
    ("POST", "/v1/streams/{stream_id}/cancel"): "streams:cancel",
    ("PUT", "/v1/durable/{path:path}"): "durable:write",
}


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    (tmp_path / "keys.jsonl").touch()
    return tmp_path / "keys.jsonl"


@pytest.fixture
def settings(tmp_path: Path, keys: Path) -> Settings:
    path = tmp_path / "millstream.toml"
    path.write_text(CONFIG.replace("KEYS", str(keys)))
    return load_settings(path, environ={})


def add(keys: Path, *scopes: str, tenant: str = "acme") -> dict[str, str]:
    """The header of a new key with these scopes."""
    with changing(keys) as kept:
        text, key = new_key(kept, tenant=tenant, now=1, scopes=scopes)
        kept[key.prefix] = key
    return {"authorization": f"Bearer {text}"}


def routes(settings: Settings) -> dict[tuple[str, str], list[str]]:
    """Every method and path that is not open, with the scopes that it needs."""
    found: dict[tuple[str, str], list[str]] = {}
    for route in iter_route_contexts(create_app(settings).routes):
        # What is no route of FastAPI (a mounted app) has no dependencies, and so no scope.
        dependant = getattr(route, "dependant", None)
        calls = [one.call for one in dependant.dependencies] if dependant else []
        scopes = [call.scope for call in calls if isinstance(call, Requires)]
        found |= {(method, str(route.path)): scopes for method in route.methods or {"ANY"}}
    # No browser sends a credential with a preflight.
    return {
        (method, path): scopes
        for (method, path), scopes in found.items()
        if path not in OPEN_PATHS and method != "OPTIONS"
    }


def test_every_route_names_one_scope_or_is_said_to_be_open(settings: Settings) -> None:
    assert {name: scopes for name, scopes in routes(settings).items() if len(scopes) != 1} == {}


def test_these_are_the_scopes(settings: Settings) -> None:
    found = {name: scopes[0] for name, scopes in routes(settings).items()}
    assert found == SCOPES


@pytest.mark.parametrize(("method", "path"), SCOPES)
async def test_no_route_answers_without_a_credential(
    client: httpx.AsyncClient, method: str, path: str
) -> None:
    refused = await client.request(method, path.replace("{", "").replace("}", ""))
    assert refused.status_code == 401


@pytest.mark.parametrize(("method", "path"), SCOPES)
async def test_no_route_answers_without_its_scope_and_says_which(
    client: httpx.AsyncClient, keys: Path, method: str, path: str
) -> None:
    scope = SCOPES[method, path]
    others = {one for one in SCOPES.values() if one != scope}
    refused = await client.request(
        method, path.replace("{", "").replace("}", ""), headers=add(keys, *others)
    )
    assert refused.status_code == 403
    assert refused.headers["www-authenticate"] == (
        f'Bearer realm="millstream", error="insufficient_scope", scope="{scope}"'
    )
    if method != "HEAD":
        error = refused.json()["error"]
        assert (error["code"], error["type"]) == ("insufficient_scope", "invalid_request_error")
        assert scope in error["message"]


@pytest.mark.parametrize(("method", "path"), SCOPES)
async def test_its_scope_alone_is_enough(
    client: httpx.AsyncClient, keys: Path, method: str, path: str
) -> None:
    answer = await client.request(
        method,
        path.replace("{", "").replace("}", ""),
        headers={**add(keys, SCOPES[method, path]), "content-type": "application/json"},
    )
    assert answer.status_code not in (401, 403, 500)


async def test_probes_are_for_everybody(client: httpx.AsyncClient) -> None:
    for path in ("/healthz", "/readyz"):
        assert (await client.get(path)).status_code == 200
    assert (await client.get("/openapi.json")).status_code == 401


async def test_whoever_has_a_credential_may_read_the_description(
    client: httpx.AsyncClient, keys: Path
) -> None:
    assert (await client.get("/openapi.json", headers=add(keys))).status_code == 200


async def test_a_stream_is_its_tenants_own(client: httpx.AsyncClient, keys: Path) -> None:
    mine, theirs = add(keys, "*"), add(keys, "*", tenant="other")
    asked = {"model": "m", "prompt": "a", "resumable": True, "stream": True}
    made = await client.post("/v1/streams", json=asked, headers=mine)
    assert made.status_code == 200, made.text
    url = f"/v1/streams/{made.headers['x-stream-id']}"
    for method, path in (("GET", url), ("HEAD", url), ("POST", f"{url}/cancel")):
        assert (await client.request(method, path, headers=theirs)).status_code == 404
        assert (await client.request(method, path, headers=mine)).status_code == 200


async def test_a_durable_stream_is_its_tenants_own(client: httpx.AsyncClient, keys: Path) -> None:
    mine, theirs = add(keys, "*"), add(keys, "*", tenant="other")
    url = "/v1/durable/a"
    assert (await client.put(url, content=b"x", headers=mine)).status_code == 201
    for method in ("GET", "HEAD", "DELETE"):
        assert (await client.request(method, url, headers=theirs)).status_code == 404
    assert (await client.get(url, headers=mine)).content == b"x"
    assert (await client.put(url, content=b"y", headers=theirs)).status_code == 201
    assert (await client.get(url, headers=mine)).content == b"x"


async def test_a_preflight_needs_no_credential_where_pages_may_call(
    tmp_path: Path, keys: Path
) -> None:
    path = tmp_path / "cors.toml"
    path.write_text(
        CONFIG.replace("KEYS", str(keys)) + '[server]\ncors_origins = ["https://app.example"]\n'
    )
    app = create_app(load_settings(path, environ={}))
    asked = {
        "origin": "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
    }
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://test"
    ) as client:
        allowed = await client.options("/v1/streams", headers=asked)
        refused = await client.post("/v1/streams", headers={"origin": "https://app.example"})
    assert allowed.status_code == 200
    assert "authorization" in allowed.headers["access-control-allow-headers"].lower()
    # A page can tell why only if it may read the answer.
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "https://app.example"


async def test_a_route_lets_pass_what_no_middleware_has_looked_at() -> None:
    request = Request({"type": "http", "headers": []})
    await Requires("admin:config")(request)
    request.scope["state"] = {"scopes": frozenset({"chat:create"})}
    with pytest.raises(NotAllowed, match="admin:config"):
        await Requires("admin:config")(request)
