"""The limiter's answer as a response, or as the head of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.admission.headers import (
    go_duration,
    lease_headers,
    refusal_headers,
    refusal_message,
    settled_headers,
    violated,
)
from millstream.api.errors import error_response
from millstream.types import Failure

if TYPE_CHECKING:
    from starlette.responses import JSONResponse

    from millstream.admission import Refusal
    from millstream.api.opening import Opened
    from millstream.streams.stream import Stream

__all__ = ["CHARGED", "final_headers", "go_duration", "limit_headers", "refusal_response"]

CHARGED = "x-tokens-charged"


def limit_headers(stream: Stream) -> dict[str, str]:
    """What is left after the reservations of all branches; the real cost is not known yet."""
    return lease_headers([branch.lease for branch in stream.branches])


def final_headers(opened: Opened) -> dict[str, str]:
    """What a stream that has ended was charged, and what is left of tokens after that.

    Empty for one that another request began: this request pays nothing.
    """
    stream = opened.new
    settlement = None if stream is None else stream.settlement
    if stream is None or settlement is None:
        return {}
    leases = [branch.lease for branch in stream.branches]
    left = settled_headers(leases, settlement.remaining_tokens)
    return {**left, CHARGED: str(settlement.charged)}


def refusal_response(refusal: Refusal) -> JSONResponse:
    """429 with the wait in every form that clients read."""
    failure = Failure(refusal_message(refusal), "rate_limit_error", "rate_limit_exceeded")
    headers = refusal_headers(refusal)
    return error_response(429, failure, headers=headers, beside=violated(refusal))
