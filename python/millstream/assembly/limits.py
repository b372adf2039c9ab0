"""From the limits of the configuration to those of admission."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from millstream.admission import (
    BytesInFlight,
    LimitBook,
    Limits,
    QueuePolicy,
    RequestRate,
    TokenWindow,
)
from millstream.admission.shared_quota import quota_of
from millstream.config.models import LONGEST_SECONDS
from millstream.config.whole import limit_settings

if TYPE_CHECKING:
    from millstream.config import BytesLimit, LimitSettings, RequestLimit, Settings

_MARGIN_SECONDS = 300.0
LEASE_TTL_NS = int((LONGEST_SECONDS + _MARGIN_SECONDS) * 1e9)
"""For leases that nobody renews: no stream outlives its deadline by more than a sweep.

The longest that can be set, as deadlines may be raised while the server runs.
"""

REMEMBERED = 8192


def book_of(settings: Settings) -> LimitBook:
    """Every limit of a configuration."""
    tenants = settings.tenants.items()
    return LimitBook(
        limits_of(settings.limits),
        tenants={name: limits_of(tenant.limits) for name, tenant in tenants},
        models={name: limits_of(model.limits) for name, model in settings.models.items()},
        tenant_models={
            (name, model): limits_of(limits)
            for name, tenant in tenants
            for model, limits in tenant.model_limits.items()
        },
    )


def check_limits(settings: Settings) -> None:
    """Raise `ConfigError` for a limit that cannot be counted where it is to be.

    To be called before limits are in force, as they must not fail when a request comes.
    """
    book = book_of(settings)
    if settings.limiter.kind == "valkey":
        for scoped in book.every():
            quota_of(scoped)


@lru_cache(maxsize=REMEMBERED)
def limits_of(settings: LimitSettings) -> Limits:
    """The limits of one scope; of a thousand most are as they were before a change."""
    requests, tokens = settings.requests, settings.tokens
    in_flight, queue = settings.bytes_in_flight, settings.queue
    return Limits(
        requests=None if requests is None else _rate(requests),
        tokens=None if tokens is None else TokenWindow(tokens.limit, tokens.window_ms),
        concurrency=settings.concurrency,
        bytes_in_flight=None if in_flight is None else _bytes(in_flight),
        queue=None if queue is None else QueuePolicy(queue.max_waiting, queue.deadline_seconds),
    )


def _bytes(in_flight: BytesLimit) -> BytesInFlight:
    return BytesInFlight(in_flight.limit, in_flight.per_stream)


def _rate(requests: RequestLimit) -> RequestRate:
    return RequestRate(Fraction(requests.rate, requests.period_seconds), requests.capacity)


def limited(settings: Settings) -> bool:
    """Whether anything at all is limited."""
    return any(limits.dimensions() for _, limits in limit_settings(settings))


def counted_here(settings: Settings) -> bool:
    """Whether limits are counted in the memory of a worker, which then has to be alone."""
    return settings.limiter.kind == "memory" and limited(settings)
