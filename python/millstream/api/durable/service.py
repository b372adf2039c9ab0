"""What the routes of durable streams work with, put together by `millstream.app`."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns, time_ns

from millstream.config import DurableSettings
from millstream.durable import Bounds, StreamRegistry


@dataclass(frozen=True, slots=True)
class DurableService:
    """One instance a worker; ``serves`` says whether this worker is the one that may.

    ``keep_alive_seconds`` 0 sends no comments.
    """

    streams: StreamRegistry
    settings: DurableSettings
    serves: Callable[[], bool]
    max_body_bytes: int
    body_seconds: float
    keep_alive_seconds: float
    blocked_send_seconds: float
    clock: Callable[[], int] = monotonic_ns
    wall_clock: Callable[[], int] = time_ns
    jitter: Callable[[int], int] = secrets.randbelow


def new_registry(
    settings: DurableSettings, *, leaving: Callable[[], bool] = lambda: False
) -> StreamRegistry:
    """An empty registry within the bounds of these settings."""
    bounds = Bounds(
        max_streams=settings.max_streams,
        max_stream_bytes=settings.max_stream_bytes,
        max_bytes=settings.max_bytes,
    )
    return StreamRegistry(bounds, new_id=lambda: secrets.token_hex(4), leaving=leaving)
