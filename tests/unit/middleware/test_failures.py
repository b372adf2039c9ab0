"""What an app raises."""

from __future__ import annotations

import json
import logging

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from millstream.errors import NotAllowed
from millstream.middleware import FailureMiddleware, RequestIdMiddleware
from tests.unit.middleware.asgi import answers, fails_after, fails_before, served


async def test_a_failure_before_the_start_is_a_500_that_names_its_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "millstream"):
        exchange = await served(RequestIdMiddleware(FailureMiddleware(fails_before)))
    assert exchange.status == 500
    assert exchange.fields["x-request-id"] == exchange.scope["state"]["request_id"]
    error = json.loads(exchange.body)["error"]
    (record,) = caplog.records
    fields = record.__dict__["millstream_fields"]
    assert fields["request_id"] == exchange.fields["x-request-id"]
    assert fields["reference"] in error["message"]
    assert "before" not in error["message"]


async def test_a_failure_in_the_response_is_the_servers_to_cut(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(RuntimeError, match="after"):
        await served(FailureMiddleware(fails_after))
    assert caplog.records == []


async def test_a_failure_on_purpose_is_answered_as_it_means(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuses(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise NotAllowed("Not you.", code="insufficient_scope", scope="notes:read")

    exchange = await served(FailureMiddleware(refuses))
    assert exchange.status == 403
    assert json.loads(exchange.body)["error"]["code"] == "insufficient_scope"
    assert 'scope="notes:read"' in exchange.fields["www-authenticate"]
    assert caplog.records == []


async def test_a_client_that_has_left_is_no_failure_and_gets_no_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def reads(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ClientDisconnect

    exchange = await served(FailureMiddleware(reads))
    assert exchange.sent == []
    assert caplog.records == []


async def test_an_answer_is_left_alone() -> None:
    exchange = await served(FailureMiddleware(answers))
    assert (exchange.status, exchange.body) == (200, b"x")
