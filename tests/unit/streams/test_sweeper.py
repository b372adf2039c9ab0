"""The one timer of a worker."""

from __future__ import annotations

import asyncio

import pytest

from millstream.streams.sweeper import Sweeper


@pytest.mark.parametrize("failing", [False, True])
async def test_the_sweeper_goes_on_until_it_is_closed(failing: bool) -> None:
    done = asyncio.Event()
    times: list[int] = []

    class Part:
        def sweep(self, now_ns: int) -> None:
            times.append(now_ns)
            if len(times) == 3:
                done.set()
            if failing:
                raise ValueError("one bad sweep")

    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    sweeper = Sweeper([Part()], clock=iter(range(100)).__next__, interval=0)
    sweeper.start()
    await done.wait()
    sweeper.close()
    sweeper.close()
    seen = len(times)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(times) == seen
    assert times == list(range(seen))
    assert bool(errors) is failing
