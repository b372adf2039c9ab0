"""Those who wait for a stream to change."""

from __future__ import annotations

import asyncio


class Waiters:
    """A wake-up says only that something changed: who wakes looks at the stream again."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def wake(self) -> None:
        """Let everybody look."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, seconds: float, departure: asyncio.Future[None]) -> None:
        """Return at the next wake-up, after ``seconds``, or when the one who waits has left."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await asyncio.wait(
                [future, departure], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            self._waiting.discard(future)
