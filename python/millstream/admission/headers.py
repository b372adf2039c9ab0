"""What admission answers, as header fields: OpenAI's set, and that of the IETF.

The latter is draft-ietf-httpapi-ratelimit-headers: ``RateLimit-Policy`` says what the quotas are,
``RateLimit`` what is left of them, each a list of Structured Fields (RFC 9651) with one item a
dimension. Items are named after the dimension, never after a scope, whose name may be a tenant's.
Two quota units are none of the registered ones: "tokens" are those of prompts and completions
together, "bytes-in-flight" the memory that open streams hold.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from millstream.admission.meters import DIMENSIONS, HELD, Reading, Readings
from millstream.admission.policies import (
    KIBIBYTE,
    NANOSECONDS_PER_MILLISECOND,
    NANOSECONDS_PER_SECOND,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from millstream.admission.base import ScopedLimits
    from millstream.admission.leases import Lease, Refusal
    from millstream.admission.meters import Dimension, Meter, Snapshot
    from millstream.admission.policies import Limits

_UNITS: dict[Dimension, str] = {
    "requests": "",
    "tokens": ';qu="tokens"',
    "concurrency": ';qu="concurrent-requests"',
    "bytes": ';qu="bytes-in-flight"',
}
_LARGEST_INTEGER = 999_999_999_999_999
"""Structured Fields have no larger ones."""
_LONGEST_NS = (1 << 63) // NANOSECONDS_PER_MILLISECOND * NANOSECONDS_PER_MILLISECOND

_WHOSE = {
    "global": "the server",
    "tenant": "your tenant",
    "model": "the model",
    "tenant_model": "your tenant for this model",
}


def ratelimit_headers(snapshot: Snapshot, scopes: Iterable[ScopedLimits] = ()) -> dict[str, str]:
    """Both sets, of the tightest scope of each dimension; empty without limits.

    ``scopes`` are those that the snapshot is of: they know the windows.
    """
    return {**_openai_fields(snapshot), **_ietf_fields(snapshot, dict(scopes))}


def lease_headers(leases: Sequence[Lease]) -> dict[str, str]:
    """What is left after these reservations."""
    if len(leases) == 1:
        # Nearly always, and then nothing is to be compared.
        return ratelimit_headers(leases[0].snapshot, leases[0].limits)
    return ratelimit_headers(tightest([lease.snapshot for lease in leases]), _limits_of(leases))


def settled_headers(leases: Sequence[Lease], remaining_tokens: int | None) -> dict[str, str]:
    """What is left once all of these have ended: ``remaining_tokens``, and their places again."""
    snapshot, limits = tightest([lease.snapshot for lease in leases]), _limits_of(leases)
    places = snapshot.concurrency
    if snapshot.tokens is not None and remaining_tokens is not None:
        snapshot = snapshot._replace(tokens=_settled(snapshot.tokens, remaining_tokens))
    if places is not None:
        held = sum(scope == places.scope for scope, _ in limits)
        snapshot = snapshot._replace(concurrency=_settled(places, places.remaining + held))
    # No lease knows how many bytes were its own.
    return ratelimit_headers(snapshot._replace(bytes=None), limits)


def refusal_headers(refusal: Refusal) -> dict[str, str]:
    """What is left, and the wait in every form that clients read."""
    return {
        **ratelimit_headers(refusal.snapshot, refusal.limits),
        "retry-after": str(refusal.retry_after_seconds),
        "retry-after-ms": str(refusal.retry_after_ms),
    }


def refusal_message(refusal: Refusal) -> str:
    """The same for people; of the scope it tells the kind and no name."""
    whose = _WHOSE.get(refusal.scope_kind, "this server")
    return (
        f"The limit on {refusal.dimension} of {whose} is reached. "
        f"Try again in {refusal.retry_after_ms} ms."
    )


def tightest(snapshots: Sequence[Snapshot]) -> Readings:
    """What is left in all of them; of equal ones the last, which was taken last."""
    return Readings(
        _least(snapshot.requests for snapshot in snapshots),
        _least(snapshot.tokens for snapshot in snapshots),
        _least(snapshot.concurrency for snapshot in snapshots),
        _least(snapshot.bytes for snapshot in snapshots),
    )


def go_duration(nanoseconds: int) -> str:
    """A duration as Go prints it and OpenAI's clients parse it: ``12ms``, ``1.5s``, ``6m0s``.

    Go has none of more than 292 years.
    """
    milliseconds = -(-min(nanoseconds, _LONGEST_NS) // NANOSECONDS_PER_MILLISECOND)
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{milliseconds / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _limits_of(leases: Sequence[Lease]) -> list[ScopedLimits]:
    return [scoped for lease in leases for scoped in lease.limits]


def _least(meters: Iterable[Meter | None]) -> Meter | None:
    known = [meter for meter in meters if meter is not None]
    return min(reversed(known), key=lambda meter: meter.remaining, default=None)


def _settled(meter: Meter, remaining: int) -> Reading:
    # The time is that of the reservation at the latest: what was used later is given back later.
    remaining = min(remaining, meter.limit)
    reset_ns = 0 if remaining == meter.limit else meter.reset_ns
    return Reading(meter.scope, meter.limit, remaining, reset_ns)


def _openai_fields(snapshot: Snapshot) -> dict[str, str]:
    headers: dict[str, str] = {}
    for dimension, meter in (("requests", snapshot.requests), ("tokens", snapshot.tokens)):
        if meter is not None:
            headers[f"x-ratelimit-limit-{dimension}"] = str(meter.limit)
            headers[f"x-ratelimit-remaining-{dimension}"] = str(max(meter.remaining, 0))
            headers[f"x-ratelimit-reset-{dimension}"] = go_duration(meter.reset_ns)
    return headers


def _ietf_fields(snapshot: Snapshot, limits: dict[str, Limits]) -> dict[str, str]:
    read: list[tuple[Dimension, Meter | None]]
    read = [(dimension, getattr(snapshot, dimension)) for dimension in DIMENSIONS]
    meters = [(dimension, meter) for dimension, meter in read if meter is not None]
    if not meters:
        return {}
    policies = [_policy(name, meter.limit, limits.get(meter.scope)) for name, meter in meters]
    left = [_left(name, meter) for name, meter in meters]
    return {"ratelimit-policy": ", ".join(policies), "ratelimit": ", ".join(left)}


@lru_cache(maxsize=1024)  # a policy lasts, and its exact fractions cost more than all the rest
def _policy(dimension: Dimension, quota: int, limits: Limits | None) -> str:
    seconds = None if limits is None else _window_seconds(dimension, limits)
    window = "" if seconds is None else f";w={_integer(seconds)}"
    return f'"{dimension}";q={_amount(dimension, quota)}{window}{_UNITS[dimension]}'


def _left(dimension: Dimension, meter: Meter) -> str:
    seconds = -(-meter.reset_ns // NANOSECONDS_PER_SECOND)
    reset = "" if dimension in HELD else f";t={_integer(seconds)}"
    return f'"{dimension}";r={_amount(dimension, meter.remaining)}{reset}'


def _window_seconds(dimension: Dimension, limits: Limits) -> int | None:
    """In which the whole quota comes back: of a bucket the time in which it fills up."""
    if dimension == "tokens" and limits.tokens is not None:
        return -(-limits.tokens.window_ms // 1000)
    if dimension == "requests" and limits.requests is not None and limits.requests.per_second:
        filled = limits.requests.burst / limits.requests.fraction
        return -(-filled.numerator // filled.denominator)
    return None


def _amount(dimension: Dimension, value: int) -> int:
    return _integer(value * KIBIBYTE if dimension == "bytes" else value)


def _integer(value: int) -> int:
    return min(max(value, 0), _LARGEST_INTEGER)
