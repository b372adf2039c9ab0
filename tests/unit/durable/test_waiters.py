from __future__ import annotations

import asyncio

from millstream.durable.waiters import Waiters
from tests.waiting import HANG_SECONDS


def never() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


async def test_a_wake_up_wakes_everybody_who_waits() -> None:
    waiters = Waiters()
    waiting = [asyncio.ensure_future(waiters.wait(60, never())) for _ in range(3)]
    await asyncio.sleep(0)
    assert len(waiters) == 3

    waiters.wake()

    await asyncio.wait_for(asyncio.gather(*waiting), HANG_SECONDS)
    assert len(waiters) == 0


async def test_a_wait_ends_with_its_time() -> None:
    waiters = Waiters()

    await waiters.wait(0, never())

    assert len(waiters) == 0


async def test_a_wait_ends_when_its_client_leaves() -> None:
    waiters, departure = Waiters(), never()
    waiting = asyncio.ensure_future(waiters.wait(60, departure))
    await asyncio.sleep(0)

    departure.set_result(None)

    await asyncio.wait_for(waiting, HANG_SECONDS)
    assert len(waiters) == 0


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    waiters = Waiters()
    waiting = asyncio.ensure_future(waiters.wait(60, never()))
    await asyncio.sleep(0)

    waiting.cancel()
    await asyncio.wait([waiting])

    assert len(waiters) == 0
    waiters.wake()
