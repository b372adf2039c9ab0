"""How much the durable streams under ``/v1/durable/`` may hold, and how long a live read lasts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from millstream.config.section import Section


class DurableSettings(Section):
    """Bounds of the Durable Streams protocol's streams, which one worker keeps in its memory."""

    enabled: bool = True
    """Whether `/v1/durable/{path}` is served; with several workers it answers 501."""
    max_streams: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Streams that may exist at once; further ones are refused with 507."""
    max_stream_bytes: Annotated[int, Field(ge=4096, le=1 << 32)] = 16 << 20
    """What one stream may hold, its producers included; an append beyond it is refused with 413."""
    max_bytes: Annotated[int, Field(ge=65536, le=1 << 40)] = 256 << 20
    """What all streams together may hold; an append beyond it is refused with 507."""
    max_path_bytes: Annotated[int, Field(ge=16, le=8192)] = 1024
    """Longest path of a stream; a longer one is refused with 414."""
    max_read_bytes: Annotated[int, Field(ge=1024, le=64 << 20)] = 256 << 10
    """Content of one answer or event; more is read in several. A JSON message stays whole."""
    long_poll_seconds: Annotated[float, Field(gt=0, le=3600)] = 20.0
    """How long `live=long-poll` waits for something new."""
    sse_seconds: Annotated[float, Field(gt=0, le=86400)] = 60.0
    """How long one `live=sse` connection lasts before the client is to open the next."""
