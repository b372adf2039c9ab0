"""The limiter's answer as header fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from millstream.api.errors import error_response
from millstream.types import Failure

if TYPE_CHECKING:
    from millstream.admission import Lease, Refusal, Snapshot


def limit_headers(lease: Lease) -> dict[str, str]:
    """What is left after this reservation; the real cost is not known yet."""
    return _snapshot_headers(lease.snapshot)


def refusal_response(refusal: Refusal) -> JSONResponse:
    """429 with the wait in every form that clients read."""
    headers = {
        **_snapshot_headers(refusal.snapshot),
        "retry-after": str(refusal.retry_after_seconds),
        "retry-after-ms": str(refusal.retry_after_ms),
    }
    message = (
        f"The limit on {refusal.dimension} of {refusal.scope} is reached. "
        f"Try again in {refusal.retry_after_ms} ms."
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
    milliseconds = -(-nanoseconds // 1_000_000)
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{milliseconds / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds
