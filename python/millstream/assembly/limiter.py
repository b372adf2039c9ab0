"""From the settings to a limiter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.admission import MemoryLimiter
from millstream.assembly.limits import lease_ttl_ns
from millstream.errors import ConfigError

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
    ttl_ns = lease_ttl_ns()
    if settings.limiter.kind == "memory":
        if observer is not None:
            observer.limiter_up(True)  # there is nothing to reach
        return MemoryLimiter(clock=clock, lease_ttl_ns=ttl_ns)
    try:
        from millstream.admission.valkey import ValkeyLimiter
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "valkey":
            raise
        raise ConfigError(
            'limiter.kind = "valkey" needs the package `valkey`: pip install "millstream[valkey]"'
        ) from error
    return ValkeyLimiter(
        settings.limiter,
        workers=settings.server.workers,
        clock=clock,
        observer=observer,
        local_lease_ttl_ns=ttl_ns,
    )
