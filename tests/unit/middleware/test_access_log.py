"""A line for every request, at its end."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from millstream.identity.principal import Principal
from millstream.middleware import AccessLogMiddleware
from millstream.telemetry.logging import JsonFormatter, TextFormatter
from tests.unit.middleware.asgi import (
    START,
    Exchange,
    answers,
    fails_after,
    fails_before,
    gives_up,
    refuses,
    request,
    served,
)

MS = 1_000_000


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    """What the access log writes as JSON."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("millstream.access")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def line(output: io.StringIO) -> dict[str, Any]:
    (text,) = output.getvalue().splitlines()
    found: dict[str, Any] = json.loads(text)
    return found


def logged(app: ASGIApp) -> AccessLogMiddleware:
    ticks = itertools.count(0, MS)
    return AccessLogMiddleware(app, clock=lambda: next(ticks))


async def test_a_request_is_one_line_with_its_times(output: io.StringIO) -> None:
    principal = Principal("jwt", "alice")
    exchange = request(
        path="/v1/models", tenant="acme", principal=principal, request_id="r", flow_id="f"
    )
    await served(logged(answers), exchange)
    found = line(output)
    del found["ts"]
    assert found == {
        "level": "info",
        "event": "request",
        "logger": "millstream.access",
        "method": "GET",
        "path": "/v1/models",
        "status": 200,
        "outcome": "completed",
        "duration_ms": 2.0,
        "first_byte_ms": 1.0,
        "tenant": "acme",
        "subject": "alice",
        "request_id": "r",
        "flow_id": "f",
    }


async def test_a_refusal_is_named_so(output: io.StringIO) -> None:
    await served(logged(refuses))
    assert (line(output)["status"], line(output)["outcome"]) == (404, "refused")


async def test_the_outcome_of_a_stream_goes_before_the_status(output: io.StringIO) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answers(scope, receive, send)
        scope["state"]["outcome"] = "engine_lost"

    await served(logged(app))
    assert (line(output)["status"], line(output)["outcome"]) == (200, "engine_lost")


@pytest.mark.parametrize(
    ("app", "status", "outcome"),
    [(fails_before, 500, "failed"), (fails_after, 200, "failed")],
)
async def test_a_failure_is_logged_and_passed_on(
    app: ASGIApp, status: int, outcome: str, output: io.StringIO
) -> None:
    with pytest.raises(RuntimeError):
        await served(logged(app))
    assert (line(output)["status"], line(output)["outcome"]) == (status, outcome)


async def test_a_client_that_left_before_the_start_is_a_499(output: io.StringIO) -> None:
    await served(logged(gives_up))
    found = line(output)
    assert (found["status"], found["outcome"]) == (499, "client_gone")
    assert "first_byte_ms" not in found


async def test_a_disconnect_that_the_framework_raises_is_no_failure(output: io.StringIO) -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ClientDisconnect

    with pytest.raises(ClientDisconnect):
        await served(logged(app))
    assert (line(output)["status"], line(output)["outcome"]) == (499, "client_gone")


@pytest.mark.parametrize(("started", "status"), [(False, 499), (True, 200)])
async def test_a_request_that_is_cancelled_is_one_whose_client_left(
    started: bool, status: int, output: io.StringIO
) -> None:
    waiting = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        if started:
            await send(START)
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(served(logged(app)))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (line(output)["status"], line(output)["outcome"]) == (status, "client_gone")


HOSTILE = [
    "/a\nlevel=error event=forged",
    "/a\r\n{}",
    "/\x1b[2J",
    "/\u202egnp.exe",
    "/\u2028x",
    "/\x00",
    "/é",
    '/" outcome="completed',
]


@pytest.mark.parametrize("path", HOSTILE)
@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()], ids=["json", "text"])
async def test_no_path_ends_a_line_or_moves_a_cursor(
    path: str, formatter: logging.Formatter, caplog: pytest.LogCaptureFixture
) -> None:
    subject = Principal("jwt", f"bob{path}")
    with caplog.at_level(logging.INFO, "millstream.access"):
        await served(logged(answers), request(path=path, tenant=path, principal=subject))
    (record,) = caplog.records
    text = formatter.format(record)
    assert text.isprintable()
    assert text.isascii()
    assert "secret" not in text


@pytest.mark.parametrize("path", ["/v1/streams/{}/", "//v1/streams/{}", "/v1/streams/{}/x", "/{}"])
async def test_a_name_of_a_stream_is_cut_though_no_route_takes_the_path(
    path: str, output: io.StringIO
) -> None:
    await served(logged(answers), request(path=path.format("AbCdEfGhIjKlMnOpQrStUvWx")))
    assert line(output)["path"] == path.format("AbCdEfGh")


async def test_a_long_path_is_cut(output: io.StringIO) -> None:
    await served(logged(answers), request(path="/x" * 100_000))
    assert len(line(output)["path"]) == 512


async def test_the_name_of_a_stream_is_cut_short(output: io.StringIO) -> None:
    # Whoever knows the whole name can read the stream.
    name = "AbCdEfGhIjKlMnOpQrStUvWx"

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["path_params"] = {"stream_id": name}
        await answers(scope, receive, send)

    exchange: Exchange = request(path=f"/v1/streams/{name}/cancel")
    await served(logged(app), exchange)
    assert line(output)["path"] == "/v1/streams/AbCdEfGh/cancel"
