"""Waiting for what another thread or process does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], *, poll_seconds: float = 0.005) -> None:
    """Return once it holds; the test's own timeout is the limit."""
    while not condition():  # noqa: ASYNC110 - nobody there could set an event of this loop
        await asyncio.sleep(poll_seconds)
