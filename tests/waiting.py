"""Waiting for what another thread or process does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE_SECONDS = 180.0
"""A bound on a hang, not a measurement: on a busy machine all takes many times as long."""


def until(condition: Callable[[], object], *, what: str = "") -> None:
    """Poll a condition."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not reached in {PATIENCE_SECONDS} s: {what or condition}")
        time.sleep(0.02)


async def until_true(condition: Callable[[], object]) -> None:
    """The same on an event loop, which goes on meanwhile."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - nobody there could set an event of this loop
            await asyncio.sleep(0.005)
