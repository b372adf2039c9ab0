"""Every middleware alone and all of them together, around bare ASGI apps and FastAPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, WebSocket
from fastapi.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import millstream.middleware
from millstream.admission import Limits, MemoryLimiter, RequestRate, Snapshot
from millstream.middleware import (
    AccessLogMiddleware,
    AuditMiddleware,
    FailureMiddleware,
    HookMiddleware,
    LimitMiddleware,
    QuotaMiddleware,
    RequestIdMiddleware,
    client_address_scopes,
)
from millstream.middleware.state import state_of
from millstream.telemetry.audit import NoAudit
from tests.unit.middleware.asgi import LAST, START, answers, request, served
from tests.unit.middleware.witnesses import Heard

Wrap = Callable[[ASGIApp], ASGIApp]


def limit(app: ASGIApp) -> ASGIApp:
    scopes = client_address_scopes(Limits(requests=RequestRate(1, 100)))
    return LimitMiddleware(app, MemoryLimiter(clock=lambda: 0), scopes)


async def peek(_scope: Scope) -> Snapshot | None:
    return await MemoryLimiter(clock=lambda: 0).peek(())


# Outermost first.
CHAIN: dict[str, Wrap] = {
    "request_id": RequestIdMiddleware,
    "hooks": lambda app: HookMiddleware(app, [Heard()]),
    "limits": limit,
    "quota": lambda app: QuotaMiddleware(app, peek),
    "audit": lambda app: AuditMiddleware(app, NoAudit()),
    "access_log": AccessLogMiddleware,
    "failures": FailureMiddleware,
}


def whole(app: ASGIApp) -> ASGIApp:
    for wrap in reversed(CHAIN.values()):
        app = wrap(app)
    return app


EVERY: list[object] = [
    *(pytest.param(wrap, id=name) for name, wrap in CHAIN.items()),
    pytest.param(whole, id="whole"),
]
every = pytest.mark.parametrize("wrap", EVERY)


@every
async def test_an_answer_of_a_bare_app_passes(wrap: Wrap) -> None:
    exchange = await served(wrap(answers), request(method="POST"))
    assert exchange.status == 200
    assert (b"a", b"b") in exchange.sent[0]["headers"]
    assert exchange.sent[1] is LAST


@every
async def test_receive_is_passed_on_untouched(wrap: Wrap) -> None:
    exchange, seen = request(method="POST"), list[Receive]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(receive)
        await answers(scope, receive, send)

    receive = exchange.receive
    await wrap(app)(exchange.scope, receive, exchange.send)
    assert seen[0] is receive


@every
@pytest.mark.parametrize("kind", ["lifespan", "websocket", "other"])
async def test_other_protocols_pass(wrap: Wrap, kind: str) -> None:
    exchange, received = request(), list[Message]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == kind
        received.append(await receive())
        await send({"type": f"{kind}.answer"})

    scope: Scope = {"type": kind, "path": "/"}
    await wrap(app)(scope, exchange.receive, exchange.send)
    assert received == [await exchange.receive()]
    assert exchange.sent == [{"type": f"{kind}.answer"}]


async def test_the_whole_chain_wraps_send_once() -> None:
    exchange, sends = request(method="POST"), list[Send]()

    def noting(app: ASGIApp) -> ASGIApp:
        async def note(scope: Scope, receive: Receive, send: Send) -> None:
            sends.append(send)
            await app(scope, receive, send)

        return note

    app: ASGIApp = answers
    for wrap in reversed(CHAIN.values()):
        app = wrap(noting(app))
    await app(exchange.scope, exchange.receive, send := exchange.send)
    assert len(sends) == len(CHAIN)
    assert sends[0] is not send
    assert all(one is sends[0] for one in sends)


async def test_a_chain_whose_state_was_copied_still_knows_its_request() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(state_of(scope)["request_id"])
        await answers(scope, receive, send)

    async def mounting(scope: Scope, receive: Receive, send: Send) -> None:
        await AccessLogMiddleware(app)(dict(scope), receive, send)

    exchange = await served(RequestIdMiddleware(mounting))
    assert seen == [exchange.fields["x-request-id"]]


async def test_fields_of_the_chain_stand_behind_the_apps_own_outermost_first() -> None:
    exchange = await served(whole(answers))
    names = [name for name, _ in exchange.sent[0]["headers"]]
    assert names[:3] == [b"a", b"x-request-id", b"x-flow-id"]
    assert names[3:] == [
        b"x-ratelimit-limit-requests",
        b"x-ratelimit-remaining-requests",
        b"x-ratelimit-reset-requests",
        b"ratelimit-policy",
        b"ratelimit",
    ]
    assert START["headers"] == [(b"a", b"b")]


# --- FastAPI ------------------------------------------------------------------------------------


def fastapi_app(events: list[str]) -> FastAPI:
    app = FastAPI(on_startup=[lambda: events.append("up")])

    @app.get("/things/{thing}")
    async def get_thing(thing: str) -> dict[str, str]:
        return {"thing": thing}

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("broken")

    @app.websocket("/socket")
    async def socket(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text("hello")
        await websocket.close()

    return app


@every
def test_fastapi_serves_within(wrap: Wrap) -> None:
    events: list[str] = []
    with TestClient(wrap(fastapi_app(events)), raise_server_exceptions=False) as client:
        assert events == ["up"]
        assert client.get("/things/7").json() == {"thing": "7"}
        assert client.get("/nothing").status_code == 404
        assert client.get("/broken").status_code == 500
        with client.websocket_connect("/socket") as socket:
            assert socket.receive_text() == "hello"


@pytest.mark.parametrize(
    ("middleware", "options"),
    [
        (RequestIdMiddleware, {}),
        (HookMiddleware, {"hooks": [Heard()]}),
        (
            LimitMiddleware,
            {
                "limiter": MemoryLimiter(clock=lambda: 0),
                "scopes": client_address_scopes(Limits(requests=RequestRate(1, 100))),
            },
        ),
        (QuotaMiddleware, {"peek": peek}),
        (AuditMiddleware, {"audit": NoAudit()}),
        (AccessLogMiddleware, {}),
        (FailureMiddleware, {}),
    ],
)
async def test_fastapi_takes_each_by_add_middleware(
    middleware: Any, options: dict[str, object]
) -> None:
    app = fastapi_app([])
    app.add_middleware(middleware, **options)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.get("/things/7")).json() == {"thing": "7"}


def test_the_public_names_are_sorted_and_exist() -> None:
    names = millstream.middleware.__all__
    assert sorted(names) == names
    assert all(getattr(millstream.middleware, name).__doc__ for name in names)
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from millstream.middleware import Nothing")
