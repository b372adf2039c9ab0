"""What a client is told of a failure or of a refusal: the same by middleware and by routes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from millstream.admission.headers import refusal_headers, refusal_message
from millstream.errors import (
    CostExceedsLimit,
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
from millstream.middleware.challenge import challenge
from millstream.types import Failure

if TYPE_CHECKING:
    from millstream.admission import Refusal

RETRY_AFTER_SECONDS = 5
"""What a client is told to wait for something that cannot be reached."""

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


_NOTHING: Mapping[str, str] = MappingProxyType({})


class ErrorAnswer(NamedTuple):
    """An OpenAI error object under a status; ``beside`` are members of the body next to it."""

    status: int
    failure: Failure
    headers: Mapping[str, str] = _NOTHING
    beside: Mapping[str, object] = _NOTHING


def refusal_answer(refusal: Refusal) -> ErrorAnswer:
    """429 with the wait in every form that clients read.

    ``violated_policies`` beside the error are names of ``RateLimit-Policy`` items, as in the
    problem type ``quota-exceeded`` of the same draft.
    """
    failure = Failure(refusal_message(refusal), "rate_limit_error", "rate_limit_exceeded")
    beside = {"violated_policies": [refusal.dimension]}
    return ErrorAnswer(429, failure, refusal_headers(refusal), beside)


def error_answer(error: MillstreamError) -> ErrorAnswer:
    """Which status a failure has, and what its answer says."""
    status = next(status for kind, status in _STATUSES if isinstance(error, kind))
    param = error.param if isinstance(error, RequestError) else None
    failure = Failure(str(error), error_type(status), error.code, param)
    return ErrorAnswer(status, failure, _headers(status, error))


def error_type(status: int) -> str:
    """Whose fault it is, in OpenAI's words."""
    return "invalid_request_error" if status < 500 else "server_error"


def wait_headers(status: int) -> dict[str, str]:
    """When to come back, where it is worth it."""
    return {"retry-after": str(RETRY_AFTER_SECONDS)} if status == 503 else {}


def _headers(status: int, error: MillstreamError) -> dict[str, str]:
    if isinstance(error, CostExceedsLimit):
        return {"x-should-retry": "false"}
    if isinstance(error, NotAuthenticated | NotAllowed):
        demanded = challenge(error)
        return {} if demanded is None else {"www-authenticate": demanded}
    return wait_headers(status)
