"""Limits in whole numbers that the script inside Valkey can reckon with: all exact below 2^53.

Not beside the script, since a configuration is checked also where the package `valkey` is missing.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from millstream.admission.policies import NANOSECONDS_PER_MILLISECOND, NANOSECONDS_PER_SECOND
from millstream.errors import ConfigError

if TYPE_CHECKING:
    from millstream.admission.base import ScopedLimits
    from millstream.admission.policies import Limits, RequestRate, TokenWindow

UNIT_NS = 500
"""Of time: a sixteenth of a millisecond is a whole number of these."""

LARGEST = 1 << 52
"""Of a bucket's level: twice that is still exact."""

NONE = -1
_UNITS_PER_SECOND = NANOSECONDS_PER_SECOND // UNIT_NS
_UNITS_PER_MILLISECOND = NANOSECONDS_PER_MILLISECOND // UNIT_NS
_SLOTS = 16


def quota_of(member: ScopedLimits) -> tuple[int, ...]:
    """Eight numbers, as ``valkey/lua/state.lua`` names them; ConfigError if one is out of range."""
    limits = member.limits
    try:
        limits.quota()
        rate, scale, burst, period = _bucket(limits.requests)
        tokens, slot, window = _window(limits.tokens)
    except ConfigError as error:
        raise ConfigError(f"{member.scope}: {error}") from error
    leases = NONE if limits.concurrency is None else limits.concurrency
    return (rate, scale, burst, max(period, window), tokens, slot, leases, _kibibytes(limits))


def _bucket(requests: RequestRate | None) -> tuple[int, int, int, int]:
    if requests is None:
        return NONE, 1, NONE, 0
    rate = requests.fraction
    period = rate.denominator * _UNITS_PER_SECOND
    for scale in (period * UNIT_NS, period // gcd(rate.numerator, period)):
        gained = rate.numerator * scale // period
        if max(scale, gained, requests.burst * scale) <= LARGEST:
            return gained, scale, requests.burst, period
    raise ConfigError(
        f"limits.requests: a burst of {requests.burst} at {rate} requests per second is too large"
        " to be counted in Valkey without rounding: lower the burst, or choose a rounder rate"
    )


def _window(tokens: TokenWindow | None) -> tuple[int, int, int]:
    if tokens is None:
        return NONE, NONE, 0
    window = tokens.window_ms * _UNITS_PER_MILLISECOND
    return tokens.limit, window // _SLOTS, window


def _kibibytes(limits: Limits) -> int:
    in_flight = limits.bytes_in_flight
    return NONE if in_flight is None else in_flight.kibibytes
