"""From a generation to a stream: what is kept of it."""

from __future__ import annotations

from time import time_ns
from types import SimpleNamespace

import pytest

from millstream.admission import Refusal
from millstream.streams.drain import Drain
from millstream.streams.orchestrator import Generation, Orchestrator
from millstream.streams.stream import Deadlines, Stream
from millstream.types import SamplingParams
from tests.unit.streams.parts import Bench

LOG_BYTES, LOG_RECORDS = 64, 16


@pytest.fixture
def bench() -> Bench:
    return Bench()


def open_stream(bench: Bench, *, streamed: bool) -> Stream:
    observer = SimpleNamespace(admitted=lambda _: None, closed=lambda _: None)
    orchestrator = Orchestrator(
        registry=bench.registry,
        limiter=bench.limiter,
        drain=Drain(bench.registry, seconds=1, clock=lambda: 0),
        observer=observer,
        log_bytes=LOG_BYTES,
        log_records=LOG_RECORDS,
        clock=lambda: 0,
        wall_clock=time_ns,
    )
    generation = Generation(
        route="chat.completion",
        model="m",
        engine=bench.engine,
        prompt=[1, 2, 3],
        params=SamplingParams(max_tokens=50),
        deadlines=Deadlines(),
        streamed=streamed,
    )
    stream = orchestrator.open(generation)
    assert not isinstance(stream, Refusal)
    return stream


def test_a_whole_answer_may_be_longer_than_the_log_of_a_stream(bench: Bench) -> None:
    # It was generated to its end and then answered with a 500, since its beginning was gone.
    stream = open_stream(bench, streamed=False)
    for number in range(50):
        bench.engine.token(stream.request, f"{number:04}")
    bench.engine.finish(stream.request)
    assert stream.log.text() == "".join(f"{number:04}" for number in range(50))


def test_the_log_of_a_streamed_answer_is_bounded(bench: Bench) -> None:
    stream = open_stream(bench, streamed=True)
    for number in range(50):
        bench.engine.token(stream.request, f"{number:04}")
    assert stream.log.bytes <= LOG_BYTES
