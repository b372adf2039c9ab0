"""Server and client over a real socket and a real ring, in one process and without a model."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from millstream.engines.base import EngineEnd
from millstream.errors import EngineUnavailable
from tests.integration.stand import Stand
from tests.integration.submitted import Submitted, ready
from tests.waiting import until_true


async def test_a_request_is_answered_over_socket_and_ring(stand: Stand) -> None:
    stand.runner.let()
    engine = await stand.engine()
    answer = await Submitted(engine, 1, [1, 2, 3], max_tokens=5).answer()
    assert answer.usage == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    assert engine.model_info is not None
    assert engine.model_info.model == "twin"


async def test_two_workers_share_one_engine_and_do_not_see_each_other(stand: Stand) -> None:
    stand.runner.let()
    first, second = await stand.engine(), await stand.engine()
    one = Submitted(first, 1, [1, 2, 3], max_tokens=20)
    two = Submitted(second, 1, [4, 5, 6], max_tokens=20)
    texts = [(await stream.answer()).texts[0] for stream in (one, two)]
    assert texts[0] != texts[1]
    assert (await Submitted(second, 2, [1, 2, 3], max_tokens=20).answer()).texts[0] == texts[0]


async def test_a_worker_that_leaves_frees_its_pages_at_once(stand: Stand) -> None:
    first, second = await stand.engine(), await stand.engine()
    for request in range(6):
        Submitted(first, request, [1, 2, request], max_tokens=50)
    kept = Submitted(second, 1, [9], max_tokens=3)
    stand.runner.let(2)
    await stand.settled(steps=2)
    await first.close()
    await until_true(lambda: len(stand.server._sessions) == 1)
    stand.runner.let()
    assert (await kept.answer()).tokens == 3
    await stand.settled(running=0, waiting=0, pages_used=0, requests_aborted=6)


@pytest.mark.parametrize("steps", [0, 1, 4, 7])
async def test_an_abort_reaches_every_phase_and_silences_the_stream(
    stand: Stand, steps: int
) -> None:
    # A prompt of 60 tokens takes four steps of 16; before the first step it waits.
    # sgl-project/sglang#36333, BerriAI/litellm#31499
    engine = await stand.engine()
    stream = Submitted(engine, 1, list(range(60)), max_tokens=30)
    stand.runner.let(steps) if steps else None
    await stand.settled(steps=steps)
    await until_true(lambda: len(stream.records) >= steps - 3)
    engine.abort(1)
    engine.abort(1)
    seen = len(stream.records)
    assert await engine.stats() is not None  # the socket keeps order: the abort has been read
    stand.runner.let()
    await stand.settled(running=0, waiting=0, pages_used=0, requests_aborted=1)
    assert stand.loop.snapshot.steps <= steps + 2
    assert len(stream.records) == seen
    assert not stream.end.done()


async def test_mass_cancelled_requests_leave_nothing(stand: Stand) -> None:
    # ray-project/ray#52533: one in a hundred cancelled requests runs on.
    stand.runner.let()
    engine = await stand.engine()
    for request in range(1000):
        Submitted(engine, request, [request % 200, 1], max_tokens=30)
        engine.abort(request)
    assert (await Submitted(engine, 1000, [5], max_tokens=3).answer()).tokens == 3
    await stand.settled(running=0, waiting=0, pages_used=0)


async def test_submit_before_the_model_is_loaded_is_refused() -> None:
    path = tempfile.mkdtemp(prefix="millstream-")
    stand = Stand(Path(path))
    engine = await stand.started()
    assert not engine.ready
    with pytest.raises(EngineUnavailable):
        Submitted(engine, 1, [1], max_tokens=1)
    stand.loaded()
    await ready(engine)
    await stand.close()
    shutil.rmtree(path)


async def test_a_request_number_in_use_is_refused_here(stand: Stand) -> None:
    engine = await stand.engine()
    Submitted(engine, 1, [1], max_tokens=5)
    with pytest.raises(ValueError, match="already open"):
        Submitted(engine, 1, [1], max_tokens=5)


async def test_a_prompt_that_cannot_be_encoded_leaves_nothing_open(stand: Stand) -> None:
    stand.runner.let()
    engine = await stand.engine()
    with pytest.raises(OverflowError):
        Submitted(engine, 1, [1 << 70], max_tokens=5)
    assert (await Submitted(engine, 1, [5], max_tokens=3).answer()).tokens == 3


async def test_a_large_prompt_does_not_hold_up_the_event_loop(stand: Stand) -> None:
    # The engine does not read meanwhile: all of it must wait in memory, none of it in the loop.
    engine = await stand.engine()
    for request in range(40):
        Submitted(engine, request, [7] * 100_000, max_tokens=5)
    assert await engine.stats(timeout_seconds=30) is not None


async def test_open_streams_are_told_when_the_engine_closes_and_no_more_can_be_sent(
    stand: Stand,
) -> None:
    engine = await stand.engine()
    streams = [Submitted(engine, request, [1, request], max_tokens=50) for request in range(3)]
    stand.runner.let(3)
    await until_true(lambda: all(stream.records for stream in streams))
    stand.server.stop()
    assert [await stream.end for stream in streams] == [EngineEnd.LOST] * 3
    assert not engine.ready
    with pytest.raises(EngineUnavailable):
        Submitted(engine, 9, [1], max_tokens=1)


async def test_records_in_the_ring_are_delivered_before_the_loss_is_told(stand: Stand) -> None:
    engine = await stand.engine()
    whole = Submitted(engine, 1, [1], max_tokens=3)
    part = Submitted(engine, 2, [2], max_tokens=50)
    assert engine._up is not None
    engine._up.hub.close()  # as if the loop had not come round to the ring yet
    stand.runner.let(4)
    await stand.settled(steps=4)
    assert not whole.records
    stand.server.stop()
    assert (await whole.answer()).tokens == 3
    assert await part.end is EngineEnd.LOST
    assert len(part.records) == 4


async def test_stats_of_an_engine_that_does_not_answer_are_none(stand: Stand) -> None:
    engine = await stand.engine()
    assert (await engine.stats()) is not None
    assert await engine.stats(timeout_seconds=0) is None
    await engine.close()
    assert await engine.stats() is None


async def test_a_hung_step_shows_in_its_age(stand: Stand) -> None:
    # vllm-project/vllm#42897: a thread that hangs in a device call is still alive.
    engine = await stand.engine()
    Submitted(engine, 1, [1], max_tokens=5)
    await stand.settled(waiting=1)
    first = await engine.stats()
    second = await engine.stats()
    assert first is not None
    assert second is not None
    assert second.idle_ns > first.idle_ns > 0
    assert second.waiting + second.running == 1
