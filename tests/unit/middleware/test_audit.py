"""Who did what."""

from __future__ import annotations

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from millstream.identity.principal import Principal
from millstream.middleware import AuditMiddleware
from tests.unit.middleware.asgi import (
    LAST,
    START,
    answers,
    fails_after,
    fails_before,
    gives_up,
    refuses,
    request,
    served,
)
from tests.unit.middleware.witnesses import Trail


class Route:
    path = "/v1/things/{thing}"


async def test_a_change_is_one_record_of_who_and_what() -> None:
    trail = Trail()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = Route
        await answers(scope, receive, send)

    exchange = request(
        (b"authorization", b"Bearer ms_secret"),
        method="POST",
        path="/v1/things/7",
        tenant="acme",
        principal=Principal("key", "ms_12345678"),
        scopes=frozenset({"b:x", "a:y"}),
        request_id="r",
        flow_id="f",
    )
    await served(AuditMiddleware(app, trail), exchange)
    assert trail.records == [
        (
            "request",
            {
                "method": "POST",
                "route": "/v1/things/{thing}",
                "status": 200,
                "outcome": "completed",
                "scopes": "a:y b:x",
                "tenant": "acme",
                "subject": "ms_12345678",
                "request_id": "r",
                "flow_id": "f",
            },
        )
    ]


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_reading_leaves_no_record(method: str) -> None:
    trail = Trail()
    await served(AuditMiddleware(answers, trail), request(method=method))
    await served(AuditMiddleware(refuses, trail), request(method=method))
    assert trail.records == []


@pytest.mark.parametrize("status", [401, 403, 429])
async def test_a_refusal_by_the_app_is_recorded_whatever_was_asked(status: int) -> None:
    trail = Trail()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({**START, "status": status})
        await send(LAST)

    await served(AuditMiddleware(app, trail), request())
    ((_, fields),) = trail.records
    assert (fields["status"], fields["outcome"]) == (status, "refused")


@pytest.mark.parametrize(
    ("app", "status", "outcome"),
    [
        (fails_before, 500, "failed"),
        (fails_after, 200, "failed"),
        (gives_up, 499, "client_gone"),
        (refuses, 404, "refused"),
    ],
)
async def test_every_ending_has_its_record(app: ASGIApp, status: int, outcome: str) -> None:
    trail = Trail()
    try:
        await served(AuditMiddleware(app, trail), request(method="DELETE"))
    except RuntimeError:
        assert outcome == "failed"
    ((_, fields),) = trail.records
    assert (fields["status"], fields["outcome"]) == (status, outcome)


async def test_an_app_without_routes_is_recorded_without_its_paths() -> None:
    trail = Trail()
    await served(AuditMiddleware(answers, trail), request(method="POST", path="/secret"))
    ((_, fields),) = trail.records
    assert fields["route"] is None
    assert "/secret" not in str(fields)
