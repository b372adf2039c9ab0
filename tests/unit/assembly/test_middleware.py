"""The chain around the real routes: what each request leaves behind in it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.types import Message

from millstream import app as assembly
from millstream.admission import LimitBook, Limits, TokenWindow
from millstream.config import Settings, load_settings
from millstream.middleware import Admitted, Ended, FirstByte
from millstream.types import Usage
from tests.unit.conftest import CONFIG
from tests.unit.middleware.asgi import Exchange, request, settle
from tests.unit.middleware.witnesses import Heard
from tests.unit.scripted_engine import ScriptedEngine, fail
from tests.unit.streams.parts import ManualEngine
from tests.waiting import until_true

PAGE = "https://app.example"
COMPLETIONS, STREAMS = "/v1/completions", "/v1/streams"
ASKED: dict[str, Any] = {"model": "m", "prompt": "the capital", "max_tokens": 9}

Make = Callable[..., Settings]
BEGUN: list[type] = [Admitted, FirstByte]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Settings with these lines added."""

    def made(*more: str) -> Settings:
        path = tmp_path / "millstream.toml"
        path.write_text("\n".join((CONFIG, *more)))
        return load_settings(path, environ={})

    return made


@pytest.fixture
def audit_file(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def settings(make: Make, audit_file: Path) -> Settings:
    return make(
        f'[audit]\nkind = "file"\npath = "{audit_file}"',
        "[log]\naccess = true",
        f'[server]\ncors_origins = ["{PAGE}"]',
    )


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def app(engine: ScriptedEngine, settings: Settings, heard: Heard) -> AsyncIterator[FastAPI]:
    app = assembly.create_app(settings, hooks=[heard])
    async with app.router.lifespan_context(app):
        yield app


def client_of(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as client:
        yield client


@pytest.fixture
def access(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    """The fields of every line of the access log."""
    caplog.set_level(logging.INFO, "millstream")
    return lambda: [
        record.__dict__["millstream_fields"]
        for record in caplog.records
        if record.name == "millstream.access"
    ]


def names_of(settings: Settings) -> list[str]:
    app = assembly.create_app(settings, hooks=[Heard()])
    return [one.cls.__name__ for one in app.user_middleware]  # type: ignore[attr-defined]


def test_the_chain_stands_in_its_order(settings: Settings) -> None:
    assert names_of(settings) == [
        "CORSMiddleware",
        "RequestIdMiddleware",
        "HookMiddleware",
        "AuthenticationMiddleware",
        "QuotaMiddleware",
        "AuditMiddleware",
        "AccessLogMiddleware",
        "FailureMiddleware",
    ]


def test_what_is_switched_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "bare.toml"
    path.write_text('[audit]\nkind = "off"\n')
    app = assembly.create_app(load_settings(path, environ={}))
    assert [one.cls.__name__ for one in app.user_middleware] == [  # type: ignore[attr-defined]
        "RequestIdMiddleware",
        "AuthenticationMiddleware",
        "FailureMiddleware",
    ]


# --- hooks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
async def test_hooks_hear_of_a_generation_from_its_admission_to_its_cost(
    client: httpx.AsyncClient, heard: Heard, streamed: bool
) -> None:
    answered = await client.post(COMPLETIONS, json={**ASKED, "stream": streamed})
    assert answered.status_code == 200
    await settle()
    assert heard.kinds == [Admitted, FirstByte, Ended]
    admitted, first, ended = heard.events
    assert (admitted.model, admitted.tenant, admitted.subject) == ("m", "default", "anonymous")
    assert admitted.stream_id == first.stream_id == ended.stream_id
    assert (admitted.method, admitted.path, admitted.route) == ("POST", COMPLETIONS, COMPLETIONS)
    assert first.status == 200
    assert (ended.status, ended.outcome, ended.partial) == (200, "completed", False)
    assert ended.usage == Usage(7, 3)
    assert ended.request_id == answered.headers["x-request-id"]
    assert ended.flow_id == answered.headers["x-flow-id"]


async def test_a_generation_that_fails_is_partial(
    client: httpx.AsyncClient, heard: Heard, engine: ScriptedEngine
) -> None:
    engine.script = fail
    answered = await client.post(COMPLETIONS, json=ASKED)
    await settle()
    assert (heard.events[-1].status, heard.events[-1].outcome) == (
        answered.status_code,
        "upstream_error",
    )
    assert heard.events[-1].partial


async def test_hooks_hear_of_refusals_too(client: httpx.AsyncClient, heard: Heard) -> None:
    await client.post(COMPLETIONS, json={**ASKED, "model": "none"})
    await client.get("/v1/models")
    await settle()
    assert heard.kinds == [FirstByte, Ended] * 2
    assert [(event.status, event.outcome) for event in heard.events[1::2]] == [
        (404, "refused"),
        (200, "completed"),
    ]


async def test_the_quota_is_what_is_left_beside_the_request(
    client: httpx.AsyncClient, heard: Heard
) -> None:
    asked = {**ASKED, "model": "limited"}
    for _ in range(2):
        assert (await client.post(COMPLETIONS, json=asked)).status_code == 200
    await settle()
    left = [event.quota_remaining for event in heard.events if isinstance(event, Admitted)]
    assert left == [29, 19]


async def test_a_stream_that_nobody_waits_for_has_its_outcome_later(
    client: httpx.AsyncClient, heard: Heard, engine: ScriptedEngine
) -> None:
    engine.script = begin
    begun = await client.post(STREAMS, json={**ASKED, "stream": False})
    await settle()
    assert heard.kinds == BEGUN
    engine.finish(1)
    await settle()
    (ended,) = heard.events[2:]
    assert (ended.status, ended.outcome) == (202, "completed")
    assert ended.stream_id == begun.json()["id"]


class Connection(Exchange):
    """A client that has sent its request and can leave."""

    def __init__(self, path: str, asked: object) -> None:
        body = json.dumps(asked).encode()
        exchange = request((b"content-type", b"application/json"), method="POST", path=path)
        super().__init__(exchange.scope)
        self._messages = [{"type": "http.request", "body": body, "more_body": False}]
        self.left = asyncio.Event()

    async def receive(self) -> Message:
        if self._messages:
            return self._messages.pop()
        await self.left.wait()
        return {"type": "http.disconnect"}


def begin(engine: ManualEngine, number: int) -> None:
    """One token, and then whatever the test does."""
    engine.token(number, "Paris")


async def abandoned(app: FastAPI, path: str, **fields: object) -> Connection:
    connection = Connection(path, ASKED | fields)
    serving = asyncio.ensure_future(app(connection.scope, connection.receive, connection.send))
    await until_true(lambda: len(connection.sent) > 1)
    connection.left.set()
    await serving
    await settle()
    return connection


async def test_a_plain_stream_ends_with_its_client(
    app: FastAPI,
    heard: Heard,
    engine: ScriptedEngine,
    access: Callable[[], list[dict[str, Any]]],
) -> None:
    engine.script = begin
    await abandoned(app, COMPLETIONS, stream=True)
    assert heard.kinds == [Admitted, FirstByte, Ended]
    ended = heard.events[-1]
    assert (ended.status, ended.outcome, ended.partial) == (200, "client_gone", True)
    assert ended.usage.completion_tokens == 1
    (line,) = access()
    assert (line["status"], line["outcome"]) == (200, "client_gone")
    assert 0 <= line["first_byte_ms"] <= line["duration_ms"]


async def test_a_resumable_stream_has_its_outcome_when_it_ends(
    app: FastAPI,
    heard: Heard,
    engine: ScriptedEngine,
    access: Callable[[], list[dict[str, Any]]],
) -> None:
    engine.script = begin
    await abandoned(app, STREAMS)
    assert heard.kinds == BEGUN
    assert access()[0]["outcome"] == "detached"
    engine.finish(1, tokens=1)
    await settle()
    (ended,) = heard.events[2:]
    assert (ended.status, ended.outcome, ended.partial) == (200, "completed", False)


async def test_a_client_that_leaves_a_whole_answer_is_a_499(
    app: FastAPI,
    heard: Heard,
    engine: ScriptedEngine,
    access: Callable[[], list[dict[str, Any]]],
) -> None:
    engine.script = begin
    connection = Connection(COMPLETIONS, ASKED)
    serving = asyncio.ensure_future(app(connection.scope, connection.receive, connection.send))
    await until_true(lambda: bool(engine.submitted))
    connection.left.set()
    await serving
    await settle()
    assert (access()[0]["status"], access()[0]["outcome"]) == (499, "client_gone")
    assert (heard.events[-1].status, heard.events[-1].outcome) == (499, "client_gone")


async def test_hooks_that_run_are_awaited_at_the_end(
    engine: ScriptedEngine, settings: Settings, heard: Heard
) -> None:
    engine.script = begin
    app = assembly.create_app(settings, hooks=[heard])
    sent: list[str] = []
    shutdown = asyncio.Event()
    messages = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> Message:
        kind = next(messages)
        if kind == "lifespan.shutdown":
            await shutdown.wait()
        return {"type": kind}

    async def send(message: Message) -> None:
        sent.append(message["type"])

    running = asyncio.ensure_future(app({"type": "lifespan", "state": {}}, receive, send))
    await until_true(lambda: bool(sent))
    await abandoned(app, STREAMS)
    services = app.state.services
    services.drain._seconds = 0.0
    shutdown.set()
    await running
    assert sent[-1] == "lifespan.shutdown.complete"
    assert isinstance(heard.events[-1], Ended)
    assert heard.events[-1].outcome == "shed"


# --- what is left -------------------------------------------------------------------------------


async def test_a_route_is_told_what_its_tenant_has_left_by_the_limits_in_force(
    make: Make, engine: ScriptedEngine
) -> None:
    told: list[object] = []

    async def tells(request: Request) -> None:
        told.append(request.scope["state"].get("quota_remaining", "unknown"))

    app = assembly.create_app(make("[limits]\ntokens = { limit = 90, window_ms = 60000 }"))
    app.add_api_route("/tells", tells)
    async with client_of(app) as client:
        await client.get("/tells")
        async with app.router.lifespan_context(app):
            await client.get("/tells")
            admission = app.state.services.orchestrator.admission
            admission.replace(LimitBook(Limits(tokens=TokenWindow(7, 60000))))
            await client.get("/tells")
            admission.replace(LimitBook())
            await client.get("/tells")
    assert told == ["unknown", 90, 7, None]


# --- audit and access log -----------------------------------------------------------------------


def trail(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_what_changes_or_spends_is_in_the_trail_by_its_route(
    client: httpx.AsyncClient, audit_file: Path
) -> None:
    begun = await client.post(STREAMS, json=ASKED, headers={"x-flow-id": "job-7"})
    name = begun.headers["x-stream-id"]
    await client.post(f"{STREAMS}/{name}/cancel")
    await client.get(f"{STREAMS}/{name}")
    await client.get("/v1/models")
    first, second = trail(audit_file)
    assert first["event"] == "request"
    assert (first["route"], first["status"], first["outcome"]) == (STREAMS, 200, "completed")
    assert (first["tenant"], first["subject"]) == ("default", "anonymous")
    assert (first["request_id"], first["flow_id"]) == (begun.headers["x-request-id"], "job-7")
    assert second["route"] == f"{STREAMS}/{{stream_id}}/cancel"
    assert name not in str((first, second))
    assert "capital" not in str((first, second))


async def test_a_refusal_by_a_limit_is_in_the_trail(
    client: httpx.AsyncClient, audit_file: Path
) -> None:
    asked = {**ASKED, "model": "limited", "max_tokens": 20}
    statuses = [(await client.post(COMPLETIONS, json=asked)).status_code for _ in range(4)]
    assert statuses[-1] == 429
    assert trail(audit_file)[-1]["status"] == 429
    assert trail(audit_file)[-1]["outcome"] == "refused"


async def test_the_access_log_cuts_the_names_of_streams(
    client: httpx.AsyncClient, access: Callable[[], list[dict[str, Any]]]
) -> None:
    name = (await client.post(STREAMS, json=ASKED)).headers["x-stream-id"]
    await client.get(f"{STREAMS}/{name}?after=2")
    paths = [line["path"] for line in access()]
    assert paths == [STREAMS, f"{STREAMS}/{name[:8]}"]


# --- the unexpected -----------------------------------------------------------------------------


async def test_a_failure_nobody_foresaw_has_its_names_and_is_readable_for_pages(
    client: httpx.AsyncClient,
    app: FastAPI,
    heard: Heard,
    access: Callable[[], list[dict[str, Any]]],
) -> None:
    async def fails() -> None:
        raise RuntimeError("secret")

    app.add_api_route("/fails", fails)
    answered = await client.get("/fails", headers={"origin": PAGE, "x-request-id": "mine"})
    assert answered.status_code == 500
    assert answered.json()["error"]["code"] == "internal_error"
    assert "secret" not in answered.text
    assert answered.headers["x-request-id"] == "mine"
    assert answered.headers["access-control-allow-origin"] == PAGE
    assert (access()[0]["status"], access()[0]["outcome"]) == (500, "failed")
    await settle()
    assert (heard.events[-1].status, heard.events[-1].outcome) == (500, "failed")


async def test_pages_may_read_the_fields_of_the_chain(client: httpx.AsyncClient) -> None:
    asked = {**ASKED, "model": "limited"}
    answered = await client.post(COMPLETIONS, json=asked, headers={"origin": PAGE})
    exposed = set(answered.headers["access-control-expose-headers"].lower().split(", "))
    ours = {name for name in answered.headers if name.startswith("x-")}
    assert {"x-flow-id", "x-request-id", "x-ratelimit-remaining-tokens"} <= ours
    assert ours <= exposed
