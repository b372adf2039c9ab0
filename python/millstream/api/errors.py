"""What the routes raise, as responses: statuses and OpenAI error objects."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from millstream.api.methods import allowed_methods
from millstream.errors import MillstreamError
from millstream.middleware.error_answer import (
    ErrorAnswer,
    error_answer,
    error_type,
    wait_headers,
)
from millstream.middleware.failures import unexpected
from millstream.types import Failure, Outcome

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
        self.failure = Failure(message, error_type(status), code, param)
        self.beside = dict(beside or {})


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


def response_of(told: ErrorAnswer) -> JSONResponse:
    """What a middleware would answer, too."""
    return error_response(told.status, told.failure, headers=told.headers, beside=told.beside)


def failed_stream_response(
    outcome: Outcome, failure: Failure, *, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The answer to a request without streaming whose stream did not end well."""
    if failure.type == "invalid_request_error" and outcome is not Outcome.CLIENT_GONE:
        # Refused where it was to be computed: the engine checks again what was checked here.
        return error_response(400, failure, headers=headers)
    status = _OUTCOME_STATUSES.get(outcome, 500)
    return error_response(status, failure, headers={**(headers or {}), **wait_headers(status)})


async def _millstream_error(_request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, MillstreamError):
        raise error
    return response_of(error_answer(error))


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
    failure = Failure(str(error.detail), error_type(error.status_code), code)
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
