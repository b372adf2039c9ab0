"""Limits that all workers and instances share. Needs the package `valkey`."""

from __future__ import annotations

from millstream.admission.valkey.limiter import ValkeyLimiter
from millstream.admission.valkey.outage import LimiterObserver

__all__ = ["LimiterObserver", "ValkeyLimiter"]
