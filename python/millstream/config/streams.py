"""How much of a stream is kept, and how its connection is watched."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from millstream.config.section import Section


class StreamSettings(Section):
    """Bounds of one stream's log and of one reader's patience."""

    max_bytes: Annotated[int, Field(ge=4096, le=1 << 30)] = 1 << 20
    """Text that one stream's log keeps; older records go first."""
    max_records: Annotated[int, Field(ge=16, le=1 << 24)] = 65536
    """Records that one stream's log keeps; older ones go first."""
    keep_alive_seconds: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Silence after which a comment is sent, from admission on."""
    coalesce_ms: Annotated[int, Field(ge=0, le=1000)] = 0
    """Least time between two sends of one stream; more saves CPU and delays all but the first."""
    blocked_send_seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """How long a client may take nothing before its connection is given up."""
