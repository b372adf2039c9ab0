"""The one place where a failure becomes a status and an OpenAI error object."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from millstream.api.methods import allowed_methods
from millstream.errors import (
    EngineUnavailable,
    InvalidParameter,
    KeysUnavailable,
    LimiterUnavailable,
    MillstreamError,
    NotAllowed,
    NotAuthenticated,
    RequestError,
    StoreUnavailable,
    UnknownModel,
)
from millstream.middleware.challenge import challenge_headers
from millstream.middleware.failures import unexpected
from millstream.types import Failure, Outcome

ENGINE_RETRY_AFTER_SECONDS = 5

_STATUSES: tuple[tuple[type[MillstreamError], int], ...] = (
    (UnknownModel, 404),
    (InvalidParameter, 422),
    (RequestError, 400),
    (EngineUnavailable, 503),
    (StoreUnavailable, 503),
    (LimiterUnavailable, 503),
    (KeysUnavailable, 503),
    (NotAuthenticated, 401),
    (NotAllowed, 403),
    (MillstreamError, 500),
)

_OUTCOME_STATUSES: Mapping[Outcome, int] = {
    # To nobody: for the logs, as other servers have it.
    Outcome.CLIENT_GONE: 499,
    Outcome.SHED: 503,
    Outcome.TIMEOUT_FIRST_TOKEN: 504,
    Outcome.TIMEOUT_IDLE: 504,
    Outcome.TIMEOUT_TOTAL: 504,
    Outcome.ENGINE_LOST: 502,
    Outcome.UPSTREAM_ERROR: 502,
}

_HTTP_CODES: Mapping[int, str] = {
    400: "invalid_json",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    408: "request_timeout",
    413: "request_too_large",
    415: "unsupported_media_type",
}


class BodyRefused(Exception):
    """Refused for its form: not JSON, too long, of another media type, none acceptable."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class RouteRefused(Exception):
    """Refused for what the route knows: no such stream, a cursor, a field of the head.

    ``beside`` are members of the answer next to its ``error``.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        beside: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.failure = Failure(message, _kind(status), code, param)
        self.beside = dict(beside or {})


def _kind(status: int) -> str:
    """Whose fault it is, in OpenAI's words."""
    return "invalid_request_error" if status < 500 else "server_error"


def error_response(
    status: int,
    failure: Failure,
    *,
    headers: Mapping[str, str] | None = None,
    beside: Mapping[str, object] | None = None,
) -> JSONResponse:
    """An OpenAI error object, with the members ``beside`` it, that no cache keeps."""
    content = {"error": msgspec.structs.asdict(failure), **(beside or {})}
    fields = {"cache-control": "no-store", **(headers or {})}
    return JSONResponse(content, status_code=status, headers=fields)


def failed_stream_response(
    outcome: Outcome, failure: Failure, *, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The answer to a request without streaming whose stream did not end well."""
    if failure.type == "invalid_request_error" and outcome is not Outcome.CLIENT_GONE:
        # Refused where it was to be computed: the engine checks again what was checked here.
        return error_response(400, failure, headers=headers)
    status = _OUTCOME_STATUSES.get(outcome, 500)
    return error_response(status, failure, headers={**(headers or {}), **_wait(status)})


def _wait(status: int) -> dict[str, str]:
    """When to come back, where it is worth it."""
    return {"retry-after": str(ENGINE_RETRY_AFTER_SECONDS)} if status == 503 else {}


async def _millstream_error(_request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, MillstreamError):
        raise error
    status = next(status for kind, status in _STATUSES if isinstance(error, kind))
    headers = _wait(status)
    if isinstance(error, NotAuthenticated | NotAllowed):
        headers |= challenge_headers(error)
    if error.code == "cost_exceeds_limit":
        headers["x-should-retry"] = "false"
    failure = Failure(
        str(error),
        _kind(status),
        error.code,
        error.param if isinstance(error, RequestError) else None,
    )
    return error_response(status, failure, headers=headers)


async def _body_refused(_request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, BodyRefused):
        raise error
    failure = Failure(error.message, "invalid_request_error", _HTTP_CODES[error.status])
    return error_response(error.status, failure)


async def _route_refused(_request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RouteRefused):
        raise error
    return error_response(error.status, error.failure, beside=error.beside)


async def _http_exception(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    code = _HTTP_CODES.get(error.status_code, "http_error")
    failure = Failure(str(error.detail), _kind(error.status_code), code)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers = {"allow": allowed_methods(request)}
    return error_response(error.status_code, failure, headers=headers)


async def _unexpected(_request: Request, error: Exception) -> JSONResponse:
    return error_response(500, unexpected(error))


def install(app: FastAPI) -> None:
    """Answer every failure of this app as OpenAI does."""
    app.add_exception_handler(MillstreamError, _millstream_error)
    app.add_exception_handler(BodyRefused, _body_refused)
    app.add_exception_handler(RouteRefused, _route_refused)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(Exception, _unexpected)
