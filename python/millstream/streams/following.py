"""Waiting for what a log does not have yet, where no connection reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream._core import Encoder, Reader

if TYPE_CHECKING:
    from millstream._core import Log
    from millstream.streams.hub import Wakeups


async def until(
    condition: Callable[[], bool], log: Log, wakeups: Wakeups, *, seconds: float
) -> bool:
    """Wait, looking after every record, until the condition holds; False if it will not.

    That is so when the log ends or the time is up.
    """
    # Never read: it only has a place in the log to wait at.
    encoder = Encoder(dialect="native", chunk_id="", model="", created=0)
    try:
        async with asyncio.timeout(seconds):
            while not condition() and not log.closed:
                await wakeups.wait(Reader(log, encoder, after=log.tail))
    except TimeoutError:
        pass
    return condition()
