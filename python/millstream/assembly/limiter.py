"""From the settings to a limiter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.admission import MemoryLimiter
from millstream.assembly.limits import LEASE_TTL_NS
from millstream.config.extras import needed_by

if TYPE_CHECKING:
    from millstream.admission import Limiter
    from millstream.admission.valkey import LimiterObserver
    from millstream.config import Settings


def open_limiter(
    settings: Settings,
    *,
    clock: Callable[[], int],
    observer: LimiterObserver | None = None,
) -> Limiter:
    """The limiter that the settings name; `Limiter.start` reaches what is outside.

    ``clock`` is monotonic, in nanoseconds. Raises `ConfigError` if a package is missing.
    """
    if settings.limiter.kind == "memory":
        if observer is not None:
            observer.limiter_up(True)  # there is nothing to reach
        return MemoryLimiter(clock=clock, lease_ttl_ns=LEASE_TTL_NS)
    with needed_by('limiter.kind = "valkey"', "valkey"):
        from millstream.admission.valkey import ValkeyLimiter
    return ValkeyLimiter(
        settings.limiter,
        workers=settings.server.workers,
        clock=clock,
        observer=observer,
        local_lease_ttl_ns=LEASE_TTL_NS,
    )
