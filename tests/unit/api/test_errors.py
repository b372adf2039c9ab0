"""Failures as statuses and OpenAI error objects."""

from __future__ import annotations

import json
import logging

import httpx
import pytest
from fastapi import FastAPI

from millstream import errors
from millstream.api.errors import BodyRefused, failed_stream_response, install
from millstream.streams.failures import FAILURES
from millstream.types import Failure, Outcome

STATUSES = {
    errors.MillstreamError: 500,
    errors.ConfigError: 500,
    errors.RequestError: 400,
    errors.InvalidParameter: 422,
    errors.UnsupportedParameter: 400,
    errors.ContextLengthExceeded: 400,
    errors.CostExceedsLimit: 400,
    errors.UnknownModel: 404,
    errors.EngineError: 500,
    errors.EngineUnavailable: 503,
    errors.StoreUnavailable: 503,
    errors.LimiterUnavailable: 503,
    errors.KeysUnavailable: 503,
    errors.NotAllowed: 403,
    errors.NotAuthenticated: 401,
}


def failure_of(kind: type[errors.MillstreamError]) -> errors.MillstreamError:
    if kind is errors.NotAuthenticated:
        return errors.NotAuthenticated("what is wrong", reason="signature")
    return kind("what is wrong")


async def answer_to(failure: Exception) -> httpx.Response:
    app = FastAPI()
    install(app)

    @app.get("/")
    async def fail() -> None:
        raise failure

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.get("/")


def test_every_failure_has_its_status_here() -> None:
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type)}
    assert kinds == set(STATUSES)


@pytest.mark.parametrize(("kind", "status"), STATUSES.items(), ids=lambda one: str(one))
async def test_a_failure_raised_on_purpose_becomes_its_status(
    kind: type[errors.MillstreamError], status: int
) -> None:
    answer = await answer_to(failure_of(kind))
    assert answer.status_code == status
    kind_of_fault = "invalid_request_error" if status < 500 else "server_error"
    assert answer.json() == {
        "error": {
            "message": "what is wrong",
            "type": kind_of_fault,
            "param": None,
            "code": kind.code,
        }
    }
    assert ("retry-after" in answer.headers) == (status == 503)


async def test_a_credential_that_does_not_do_is_challenged() -> None:
    missing = await answer_to(errors.NotAllowed("no", code="c", scope="chat:create"))
    wrong = await answer_to(errors.NotAuthenticated("no", reason="expired"))
    assert missing.headers["www-authenticate"] == (
        'Bearer realm="millstream", error="insufficient_scope", scope="chat:create"'
    )
    assert wrong.headers["www-authenticate"] == 'Bearer realm="millstream", error="invalid_token"'


async def test_the_field_that_is_wrong_is_named() -> None:
    answer = await answer_to(errors.InvalidParameter("too hot", param="temperature"))
    assert answer.json()["error"]["param"] == "temperature"


async def test_a_body_that_cannot_be_read_has_the_status_that_says_why() -> None:
    answer = await answer_to(BodyRefused(413, "too large"))
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"


async def test_a_defect_shows_the_client_a_reference_and_the_log_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "millstream"):
        answer = await answer_to(ZeroDivisionError("secret detail"))
    assert answer.status_code == 500
    error = answer.json()["error"]
    assert error["code"] == "internal_error"
    assert "secret" not in error["message"]
    (record,) = (one for one in caplog.records if one.name.startswith("millstream"))
    assert record.millstream_fields["reference"] in error["message"]  # type: ignore[attr-defined]
    assert record.exc_info is not None


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.SHED, 503),
        (Outcome.TIMEOUT_FIRST_TOKEN, 504),
        (Outcome.TIMEOUT_IDLE, 504),
        (Outcome.TIMEOUT_TOTAL, 504),
        (Outcome.ENGINE_LOST, 502),
        (Outcome.UPSTREAM_ERROR, 502),
    ],
)
def test_each_way_to_end_badly_has_its_status(outcome: Outcome, status: int) -> None:
    answer = failed_stream_response(outcome, FAILURES[outcome])
    assert answer.status_code == status
    assert json.loads(bytes(answer.body))["error"]["code"] == outcome.value
    assert ("retry-after" in answer.headers) is (status == 503)


def test_a_request_that_only_the_engine_could_refuse_is_still_a_bad_request() -> None:
    failure = Failure("too long", "invalid_request_error", "context_length_exceeded")
    assert failed_stream_response(Outcome.UPSTREAM_ERROR, failure).status_code == 400
