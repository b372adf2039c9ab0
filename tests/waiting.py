"""Waiting for what another thread or process does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

HANG_SECONDS = 120.0
"""What takes longer hangs: no machine, however slow and busy, takes as long for what is waited for
here. The bound on a whole test, in pyproject.toml, is above it."""


def until(
    condition: Callable[[], object], *, seconds: float = HANG_SECONDS, what: str = ""
) -> None:
    """Poll a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not reached in {seconds} s: {what or condition}")
        time.sleep(0.02)


async def until_true(condition: Callable[[], object], *, seconds: float = HANG_SECONDS) -> None:
    """The same on an event loop, which goes on meanwhile."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - nobody there could set an event of this loop
            await asyncio.sleep(0.005)
