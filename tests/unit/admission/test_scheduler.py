"""Time of the loop, asked in nanoseconds of another clock."""

from __future__ import annotations

import asyncio

import pytest

from millstream.admission.scheduler import LoopScheduler


@pytest.mark.parametrize(
    ("when_ns", "seconds"),
    # uvloop rounds to whole milliseconds: down would call before the time, over and over.
    [(1_000_000_000, 0.0), (999, 0.0), (1_000_000_001, 0.001), (2_000_400_000, 1.001)],
)
async def test_a_call_never_comes_before_its_time(
    monkeypatch: pytest.MonkeyPatch, when_ns: int, seconds: float
) -> None:
    asked: list[float] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def listening(delay: float, callback: object) -> asyncio.TimerHandle:
        asked.append(delay)
        return call_later(0, lambda: None)

    monkeypatch.setattr(loop, "call_later", listening)
    LoopScheduler(lambda: 1_000_000_000).call_at(when_ns, lambda: None).cancel()
    assert asked == [seconds]
