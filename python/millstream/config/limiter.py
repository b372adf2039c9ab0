"""Where limits are counted."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from millstream.config.section import Section


class LimiterSettings(Section):
    """The counters behind every limit: one worker's memory, or a Valkey that all workers share."""

    kind: Literal["memory", "valkey"] = "memory"
    """`memory` is right for one worker only; `valkey` counts for all workers and instances."""
    url: Annotated[str, Field(pattern=r"^(valkey|valkeys|redis|rediss|unix)://")] = (
        "valkey://127.0.0.1:6379/0"
    )
    """The Valkey server; of no effect with `memory`."""
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] = "default"
    """Servers of the same namespace share their limits; part of every key's hash tag."""
    when_down: Literal["local", "refuse"] = "local"
    """While Valkey is away: `local` grants each worker its share, `refuse` answers 503."""
    instances: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Servers that share the limits: a worker's share is 1 / (instances * server.workers)."""
    lease_seconds: Annotated[float, Field(ge=1, le=3600)] = 30.0
    """How long a dead worker's streams keep their places; live ones renew every third of this."""
