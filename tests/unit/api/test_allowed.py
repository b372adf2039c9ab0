"""What a tenant may use, on every road by which it can begin something."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from millstream import app as assembly
from millstream.api.allowed import check_still_allowed, tenant_settings
from millstream.api.branch import deadlines_of
from millstream.api.services import Services
from millstream.config import Settings, StreamPolicy, load_settings
from millstream.errors import NotAllowed
from millstream.streams.branch import Deadlines
from millstream.streams.orchestrator import BranchRequest, Generation
from millstream.types import SamplingParams
from tests.unit.api.test_streams import silent
from tests.unit.api.test_tenants import tenant
from tests.unit.scripted_engine import ScriptedEngine

CONFIG = """
[engines.local]

[models.m]
routes = [{ engine = "local" }]
timeouts = { first_token_seconds = 3, idle_seconds = 4 }

[models.other]
routes = [{ engine = "local" }]

[tenants.few]
models = ["m"]
timeouts = { idle_seconds = 9 }
streams = { keep_alive_seconds = 2 }

[tenants.chats]
routes = ["chat"]

[tenants.none]
models = []
routes = []
"""
MESSAGES = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/completions": {"prompt": "a"},
    "/v1/responses": {"input": "a"},
    "/v1/streams": {"prompt": "a"},
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "millstream.toml"
    path.write_text(CONFIG)
    return load_settings(path, environ={})


@pytest.fixture
async def services(engine: ScriptedEngine, settings: Settings) -> AsyncIterator[Services]:
    app = assembly.create_app(settings)
    async with app.router.lifespan_context(app):
        yield app.state.services


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("name", ["other", "no-such-model"])
async def test_a_model_of_others_is_refused_whether_it_exists_or_not(
    client: httpx.AsyncClient, engine: ScriptedEngine, path: str, name: str
) -> None:
    async with tenant(client, "few") as few:
        refused = await few.post(path, json={**BODIES[path], "model": name})
        assert code(refused) == (403, "model_not_allowed")
        assert (await few.post(path, json={**BODIES[path], "model": "m"})).status_code == 200
    assert len(engine.submitted) == 1


@pytest.mark.parametrize("path", BODIES)
async def test_a_model_that_does_not_exist_is_not_found_by_whoever_may_use_all(
    client: httpx.AsyncClient, path: str
) -> None:
    answered = await client.post(path, json={**BODIES[path], "model": "no-such-model"})
    assert code(answered) == (404, "model_not_found")


async def test_one_branch_that_is_not_allowed_refuses_them_all_before_any_begins(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    body = {"prompt": "a", "branches": [{"model": "m"}, {"model": "other"}]}
    async with tenant(client, "few") as few:
        headers = {"Idempotency-Key": "k"}
        assert code(await few.post("/v1/streams", json=body, headers=headers)) == (
            403,
            "model_not_allowed",
        )
        # Nor has the key been taken.
        again = {"prompt": "a", "model": "m"}
        answered = await few.post("/v1/streams", json=again, headers=headers)
        assert answered.status_code == 200
    assert len(engine.submitted) == 1


async def test_only_the_models_that_may_be_used_are_listed(client: httpx.AsyncClient) -> None:
    async def listed(name: str) -> list[str]:
        async with tenant(client, name) as one:
            return [model["id"] for model in (await one.get("/v1/models")).json()["data"]]

    assert await listed("few") == ["m"]
    assert await listed("somebody") == ["m", "other"]
    async with tenant(client, "few") as few:
        assert (await few.get("/v1/models/m")).json()["id"] == "m"
        assert code(await few.get("/v1/models/other")) == (403, "model_not_allowed")
    async with tenant(client, "chats") as chats:
        assert code(await chats.get("/v1/models")) == (403, "route_not_allowed")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/completions"),
        ("POST", "/v1/responses"),
        ("POST", "/v1/streams"),
        ("GET", "/v1/models"),
        ("PUT", "/v1/durable/a"),
        ("POST", "/v1/durable/a"),
    ],
)
async def test_a_route_that_is_not_allowed_is_refused_before_its_body_is_looked_at(
    client: httpx.AsyncClient, engine: ScriptedEngine, method: str, path: str
) -> None:
    async with tenant(client, "chats") as chats:
        refused = await chats.request(method, path, content=b"no JSON")
        assert code(refused) == (403, "route_not_allowed")
        body = {"model": "m", "messages": MESSAGES}
        assert (await chats.post("/v1/chat/completions", json=body)).status_code == 200
    assert len(engine.submitted) == 1


async def test_an_empty_list_allows_nothing(client: httpx.AsyncClient) -> None:
    async with tenant(client, "none") as none:
        body = {"model": "m", "messages": MESSAGES}
        assert code(await none.post("/v1/chat/completions", json=body)) == (
            403,
            "route_not_allowed",
        )


async def test_what_a_tenant_has_begun_it_may_read_and_cancel_whatever_its_routes(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = silent
    async with tenant(client, "chats") as chats, tenant(client, "few") as few:
        body = {
            "model": "m",
            "input": "a",
            "background": True,
        }
        begun = (await few.post("/v1/responses", json=body)).json()
        assert (await few.get(f"/v1/responses/{begun['id']}")).status_code == 200
        # Nobody else's, for which the routes make no difference either.
        assert (await chats.get(f"/v1/responses/{begun['id']}")).status_code == 404
        cancelled = await few.post(f"/v1/responses/{begun['id']}/cancel")
        assert cancelled.json()["status"] == "cancelled"


async def test_a_tenants_timeouts_and_policy_stand_over_its_models(services: Services) -> None:
    own, common = services.model("m", "few"), services.model("m", "somebody")
    assert (own.timeouts.first_token_seconds, own.timeouts.idle_seconds) == (3, 9)
    assert (common.timeouts.first_token_seconds, common.timeouts.idle_seconds) == (3, 4)
    assert own.timeouts.total_seconds == common.timeouts.total_seconds
    assert (own.policy.keep_alive_seconds, common.policy.keep_alive_seconds) == (2, 10)


async def test_a_tenants_timeouts_reach_its_streams(services: Services) -> None:
    deadlines = deadlines_of(services.model("m", "few"))
    assert deadlines.idle_ns == 9_000_000_000
    assert deadlines.first_token_ns == 3_000_000_000


def test_a_tenant_that_is_removed_while_its_body_arrives_may_do_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "required.toml"
    path.write_text('[auth]\nmode = "required"\nkeys_file = "keys"\n[tenants.a]\n')
    settings = load_settings(path, environ={})
    assert tenant_settings(settings, "a").models is None
    with pytest.raises(NotAllowed, match="no such tenant") as refused:
        tenant_settings(settings, "removed")
    assert refused.value.code == "unknown_tenant"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("few", "model_not_allowed"),
        ("gone", "unknown_tenant"),
        ("chats", "route_not_allowed"),
    ],
)
def test_who_has_waited_is_asked_again(settings: Settings, name: str, code: str) -> None:
    guarded = settings.model_copy(
        update={"auth": settings.auth.model_copy(update={"mode": "required"})}
    )
    with pytest.raises(NotAllowed) as refused:
        check_still_allowed(guarded, generation(name, "m", "other"))
    assert refused.value.code == code
    check_still_allowed(guarded, generation("few", "m"))


def generation(tenant: str, *models: str) -> Generation:
    branches = [
        BranchRequest(
            model=model,
            engine=ScriptedEngine(),
            prompt=[1],
            params=SamplingParams(max_tokens=1),
            deadlines=Deadlines(),
        )
        for model in models
    ]
    return Generation(
        route="stream",
        dialect="native",
        id_prefix="",
        branches=tuple(branches),
        streamed=True,
        policy=StreamPolicy(),
        tenant=tenant,
    )
