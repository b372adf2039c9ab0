"""What admission answers, as header fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.admission.leases import Refusal, Snapshot


def ratelimit_headers(snapshot: Snapshot) -> dict[str, str]:
    """OpenAI's ``x-ratelimit-*`` of the tightest scope of each dimension; empty without limits."""
    headers: dict[str, str] = {}
    for dimension, meter in (("requests", snapshot.requests), ("tokens", snapshot.tokens)):
        if meter is not None:
            headers[f"x-ratelimit-limit-{dimension}"] = str(meter.limit)
            headers[f"x-ratelimit-remaining-{dimension}"] = str(meter.remaining)
            headers[f"x-ratelimit-reset-{dimension}"] = go_duration(meter.reset_ns)
    return headers


def refusal_headers(refusal: Refusal) -> dict[str, str]:
    """The same, and the wait in every form that clients read."""
    return {
        **ratelimit_headers(refusal.snapshot),
        "retry-after": str(refusal.retry_after_seconds),
        "retry-after-ms": str(refusal.retry_after_ms),
    }


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
