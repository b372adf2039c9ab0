"""From the limits of the configuration to those of admission."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from millstream.admission import (
    BytesInFlight,
    LimitBook,
    Limits,
    QueuePolicy,
    RequestRate,
    TokenWindow,
)

if TYPE_CHECKING:
    from millstream.config import LimitSettings, RequestLimit, Settings


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


def limits_of(settings: LimitSettings) -> Limits:
    """The limits of one scope."""
    requests, tokens = settings.requests, settings.tokens
    in_flight, queue = settings.bytes_in_flight, settings.queue
    return Limits(
        requests=None if requests is None else _rate(requests),
        tokens=None if tokens is None else TokenWindow(tokens.limit, tokens.window_ms),
        concurrency=settings.concurrency,
        bytes_in_flight=in_flight and BytesInFlight(in_flight.limit, in_flight.per_stream),
        queue=queue and QueuePolicy(queue.max_waiting, queue.deadline_seconds),
    )


def _rate(requests: RequestLimit) -> RequestRate:
    return RequestRate(Fraction(requests.rate, requests.period_seconds), requests.capacity)
