"""The limiter's answer as a response, or as the head of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.admission.headers import lease_headers, settled_headers
from millstream.api.errors import response_of
from millstream.middleware.error_answer import refusal_answer

if TYPE_CHECKING:
    from starlette.responses import JSONResponse

    from millstream.admission import Refusal
    from millstream.api.opening import Opened
    from millstream.streams.stream import Stream

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
    return response_of(refusal_answer(refusal))
