"""The limiter's answer as header fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.admission.headers import go_duration, ratelimit_headers, refusal_headers
from millstream.api.errors import error_response
from millstream.types import Failure

if TYPE_CHECKING:
    from starlette.responses import JSONResponse

    from millstream.admission import Lease, Refusal

__all__ = ["go_duration", "limit_headers", "refusal_response"]


def limit_headers(lease: Lease) -> dict[str, str]:
    """What is left after this reservation; the real cost is not known yet."""
    return ratelimit_headers(lease.snapshot)


def refusal_response(refusal: Refusal) -> JSONResponse:
    """429 with the wait in every form that clients read."""
    message = (
        f"The limit on {refusal.dimension} of {refusal.scope} is reached. "
        f"Try again in {refusal.retry_after_ms} ms."
    )
    failure = Failure(message, "rate_limit_error", "rate_limit_exceeded")
    return error_response(429, failure, headers=refusal_headers(refusal))
