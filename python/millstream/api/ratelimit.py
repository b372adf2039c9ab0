"""The limiter's answer as header fields (reference: limits-and-resume A3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from millstream.api.errors import error_response
from millstream.streams.failure import Failure

if TYPE_CHECKING:
    from millstream._core import Snapshot
    from millstream.admission import Lease, Refusal

_MILLISECOND = 1_000_000
_SECOND = 1_000_000_000


def limit_headers(lease: Lease) -> dict[str, str]:
    """What is left after this reservation; the real cost is not known yet."""
    return _snapshot_headers(lease.snapshot)


def refusal_response(refusal: Refusal) -> JSONResponse:
    """429 with the wait in every form that clients read."""
    wait_ns = max(refusal.retry_after_ns, 1)
    headers = {
        **_snapshot_headers(refusal.snapshot),
        "retry-after": str(_ceil(wait_ns, _SECOND)),
        "retry-after-ms": str(_ceil(wait_ns, _MILLISECOND)),
    }
    message = (
        f"The limit on {refusal.dimension} of {refusal.scope} is reached. "
        f"Try again in {_ceil(wait_ns, _MILLISECOND)} ms."
    )
    failure = Failure(message, "rate_limit_error", "rate_limit_exceeded")
    return error_response(429, failure, headers=headers)


def _snapshot_headers(snapshot: Snapshot) -> dict[str, str]:
    headers: dict[str, str] = {}
    for dimension, meter in (("requests", snapshot.requests), ("tokens", snapshot.tokens)):
        if meter is not None:
            headers[f"x-ratelimit-limit-{dimension}"] = str(meter.limit)
            headers[f"x-ratelimit-remaining-{dimension}"] = str(meter.remaining)
            headers[f"x-ratelimit-reset-{dimension}"] = go_duration(meter.reset_ns)
    return headers


def go_duration(nanoseconds: int) -> str:
    """A duration as Go prints it and OpenAI's clients parse it: ``12ms``, ``1.5s``, ``6m0s``."""
    milliseconds = _ceil(nanoseconds, _MILLISECOND)
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{milliseconds / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _ceil(nanoseconds: int, unit: int) -> int:
    return -(-nanoseconds // unit)
