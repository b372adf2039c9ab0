"""Where streams are kept for readers who come later or elsewhere."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from millstream.config.section import Section


class StoreSettings(Section):
    """The stream store: this worker's memory, or a Valkey that all workers share."""

    kind: Literal["memory", "valkey"] = "memory"
    """`memory` is lost with its worker and not seen by others; `valkey` is shared."""
    url: Annotated[str, Field(pattern=r"^(valkey|valkeys|redis|rediss|unix)://")] = (
        "valkey://127.0.0.1:6379/0"
    )
    """The Valkey server; of no effect with `memory`."""
    flush_ms: Annotated[int, Field(ge=1, le=10_000)] = 100
    """How long a record waits for the eight tokens that make an entry full."""
    lease_seconds: Annotated[float, Field(ge=1, le=300)] = 10.0
    """Silence after which a worker counts as dead and its streams as lost."""
    max_entries: Annotated[int, Field(ge=16, le=1 << 20)] = 8192
    """Entries of one stream that Valkey keeps; older ones go first."""
    max_retained_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 40)] = 256 << 20
    """Memory of ended streams that one worker keeps; the oldest go first."""
