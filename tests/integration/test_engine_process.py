"""The real engine process with the real model: streams, aborts, losses, several workers."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from millstream._core import Encoder, Reader
from millstream.engines.base import EngineEnd, EngineStats
from millstream.engines.torch.client import TorchEngine
from millstream.engines.torch.options import EngineOptions
from millstream.engines.torch.runtime import RuntimeDirectory, holding
from millstream.errors import EngineUnavailable
from millstream.streams.hub import Wakeups
from tests.integration.submitted import Submitted, ready, torch_engine
from tests.waiting import until_true

# One thread: a machine that runs a test suite has other things to do.
OPTIONS = EngineOptions(
    model="smollm2-135m-instruct",
    dtype="float32",
    device="cpu",
    threads=1,
    max_batch=4,
    kv_tokens=2048,
    max_step_tokens=64,
    reserve_output_tokens=32,
)


def temporary_directory() -> RuntimeDirectory:
    return RuntimeDirectory(Path(tempfile.mkdtemp(prefix="millstream-")))


@pytest.fixture(scope="module")
def directory() -> Iterator[RuntimeDirectory]:
    """The place of the engine process that this module's tests share."""
    directory = temporary_directory()
    yield directory
    end_process(directory)
    shutil.rmtree(directory.path)


def end_process(directory: RuntimeDirectory) -> None:
    for line in directory.log_tail().splitlines():
        if "engine process" in line and "starts" in line:
            os.kill(int(line.split("engine process ")[1].split()[0]), signal.SIGTERM)


def is_free(path: Path) -> bool:
    with holding(path) as free:
        return free


async def ended(directory: RuntimeDirectory) -> None:
    """Return when no process holds the directory any more."""
    await until_true(lambda: is_free(directory.lock))


@pytest.fixture
async def engine(directory: RuntimeDirectory) -> AsyncIterator[TorchEngine]:
    engine = torch_engine(directory, OPTIONS)
    await engine.start()
    await ready(engine)
    yield engine
    await engine.close()


async def started(request: Submitted) -> None:
    """Return once the first record is there."""
    await until_true(lambda: bool(request.records))


async def stats_when(engine: TorchEngine, **expected: int) -> EngineStats:
    """The engine's stats once they say so."""
    while True:
        stats = await engine.stats(timeout_seconds=60)
        assert stats is not None
        if all(getattr(stats, key) == value for key, value in expected.items()):
            return stats
        await asyncio.sleep(0.01)


def prompt(length: int, start: int = 1000) -> list[int]:
    return [start + 7 * index % 3000 for index in range(length)]


async def test_a_chat_is_answered_truly(engine: TorchEngine) -> None:
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    asked = engine.tokenizer.encode_chat(chat)
    answer = await Submitted(engine, 1, asked, max_tokens=40, ignore_eos=False).answer()
    assert answer.texts == {0: "The capital of France is Paris."}
    assert answer.reasons == {0: "stop"}
    assert answer.usage["prompt_tokens"] == len(asked)
    assert answer.usage["completion_tokens"] == answer.tokens == 8


async def test_a_reader_that_waits_gets_the_frames_of_an_answer(engine: TorchEngine) -> None:
    wakeups = Wakeups()
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    asked = engine.tokenizer.encode_chat(chat)
    answer = Submitted(engine, 1, asked, max_tokens=40, ignore_eos=False)
    encoder = Encoder(dialect="chat", chunk_id="c", model="m", created=1, include_usage=True)
    reader = Reader(answer.log, encoder)
    answer.end.add_done_callback(lambda _: answer.log.close("completed", time_ns=1))
    body = b""
    while not reader.finished:
        await wakeups.wait(reader)
        body += reader.take()
    assert answer.log.text() == "The capital of France is Paris."
    assert answer.log.finish_reason() == "stop"
    assert answer.log.token_count == 7  # the end token has no text and so no token record
    assert '"completion_tokens":8' in (answer.log.usage or "")
    assert body.count(b"data: ") == body.count(b'"content":') + 3  # finish, usage, [DONE]
    assert body.endswith(b"data: [DONE]\n\n")
    wakeups.close()


async def test_a_stop_string_ends_a_real_answer(engine: TorchEngine) -> None:
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    asked = engine.tokenizer.encode_chat(chat)
    answer = await Submitted(engine, 1, asked, max_tokens=40, stop=(" Paris",)).answer()
    assert (answer.texts[0], answer.reasons[0]) == ("The capital of France is", "stop")


async def test_greedy_output_is_the_same_alone_and_among_arrivals_and_aborts(
    engine: TorchEngine,
) -> None:
    prompts = [prompt(length, 500 * length) for length in (1, 9, 33, 64, 100, 150)]
    alone = [
        (await Submitted(engine, number, tokens, max_tokens=12).answer()).texts
        for number, tokens in enumerate(prompts)
    ]
    mixed = []
    for number, tokens in enumerate(prompts):
        mixed.append(Submitted(engine, 10 + number, tokens, max_tokens=12))
        Submitted(engine, 20 + number, prompt(40, 77 * number), max_tokens=12)
        await started(mixed[max(0, number - 2)])
        engine.abort(20 + number)
    assert [(await stream.answer()).texts for stream in mixed] == alone


async def test_choices_are_what_single_requests_with_the_next_seeds_are(
    engine: TorchEngine,
) -> None:
    sampling = {"max_tokens": 8, "temperature": 1.0}
    asked = prompt(70)
    together = await Submitted(engine, 1, asked, n=3, seed=40, **sampling).answer()
    single = [
        (await Submitted(engine, 2 + n, asked, seed=40 + n, **sampling).answer()).texts[0]
        for n in range(3)
    ]
    assert list(together.texts.values()) == single
    assert len(set(single)) == 3


async def test_choices_share_the_pages_of_their_prompt(engine: TorchEngine) -> None:
    stream = Submitted(engine, 1, prompt(320, 9), n=4, max_tokens=200)
    await stats_when(engine, running=4)
    await started(stream)
    stats = await engine.stats()
    assert stats is not None
    assert 10 <= stats.pages_used <= 10 + 4 * 3
    engine.abort(1)
    await stats_when(engine, running=0, waiting=0, pages_used=0)


async def test_a_prompt_beyond_the_cache_fails_alone(engine: TorchEngine) -> None:
    good = Submitted(engine, 1, prompt(5), max_tokens=5)
    bad = await Submitted(engine, 2, prompt(OPTIONS.kv_tokens), max_tokens=5).answer()
    assert bad.error["code"] == "context_length_exceeded"
    assert bad.error["type"] == "invalid_request_error"
    unknown = await Submitted(engine, 3, [1 << 30], max_tokens=5).answer()
    assert unknown.error["code"] == "invalid_value"
    assert (await good.answer()).tokens == 5


async def abort_and_count_steps(engine: TorchEngine, request: int, steps: int) -> int:
    """Steps until the engine is empty after an abort, seen from ``steps``."""
    engine.abort(request)
    stats = await stats_when(engine, running=0, waiting=0, pages_used=0)
    return stats.steps - steps


async def test_an_abort_in_decode_frees_everything_within_two_steps(engine: TorchEngine) -> None:
    stream = Submitted(engine, 1, prompt(50), n=2, max_tokens=500)
    await started(stream)
    before = await stats_when(engine, running=2)
    assert await abort_and_count_steps(engine, 1, before.steps) <= 2
    seen = len(stream.records)
    assert await engine.stats() is not None  # the next steps would have written by now
    assert len(stream.records) == seen
    assert not stream.end.done()


async def test_an_abort_in_prefill_frees_everything_within_two_steps(engine: TorchEngine) -> None:
    # 1,920 tokens are 30 steps of 64.
    stream = Submitted(engine, 1, prompt(1920, 3), max_tokens=5)
    before = await stats_when(engine, running=1)
    assert await abort_and_count_steps(engine, 1, before.steps) <= 2
    assert stream.records == []


async def test_an_abort_of_a_waiting_request_leaves_the_running_ones(engine: TorchEngine) -> None:
    Submitted(engine, 1, prompt(40), n=OPTIONS.max_batch, max_tokens=200)
    waiting = Submitted(engine, 2, prompt(60, 5), max_tokens=5)
    await stats_when(engine, running=OPTIONS.max_batch, waiting=1)
    engine.abort(2)
    before = await stats_when(engine, running=OPTIONS.max_batch, waiting=0)
    assert await abort_and_count_steps(engine, 1, before.steps) <= 2
    assert waiting.records == []


async def start_worker(directory: RuntimeDirectory, count: int) -> asyncio.subprocess.Process:
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.engine_worker"),
        *(str(directory.path), OPTIONS.to_json(), str(count)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"working\n"
    return worker


async def test_a_killed_worker_frees_its_requests_and_not_the_others(
    engine: TorchEngine, directory: RuntimeDirectory
) -> None:
    before = await stats_when(engine, running=0)
    worker = await start_worker(directory, 3)
    mine = Submitted(engine, 1, prompt(5), max_tokens=8)
    worker.kill()
    assert (await mine.answer()).tokens == 8
    await worker.wait()
    after = await stats_when(engine, running=0, waiting=0, pages_used=0)
    assert after.requests_aborted - before.requests_aborted == 3
    assert after.pid == before.pid


async def test_a_second_worker_finds_the_running_engine(
    engine: TorchEngine, directory: RuntimeDirectory
) -> None:
    other = torch_engine(directory, OPTIONS)
    await other.start()
    await ready(other)
    assert other.pid == engine.pid
    texts = [(await Submitted(one, 1, prompt(9), max_tokens=6).answer()) for one in (engine, other)]
    assert texts[0].texts == texts[1].texts
    await other.close()


async def test_an_engine_that_stands_still_answers_no_stats(engine: TorchEngine) -> None:
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGSTOP)
    try:
        assert await engine.stats(timeout_seconds=0.2) is None
    finally:
        os.kill(engine.pid, signal.SIGCONT)
    assert await engine.stats(timeout_seconds=60) is not None


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_lost_engine_ends_its_streams_and_comes_back(
    engine: TorchEngine, how: signal.Signals
) -> None:
    streams = [Submitted(engine, number, prompt(8, number), max_tokens=900) for number in range(3)]
    await started(streams[0])
    former = engine.pid
    assert former is not None
    os.kill(former, how)
    assert [await stream.end for stream in streams] == [EngineEnd.LOST] * 3
    assert not engine.ready
    with pytest.raises(EngineUnavailable):
        Submitted(engine, 9, prompt(3), max_tokens=1)
    await ready(engine)
    assert engine.pid != former
    assert (await Submitted(engine, 10, prompt(3), max_tokens=4).answer()).tokens == 4


async def test_of_several_workers_one_starts_the_process_and_it_ends_after_the_last() -> None:
    directory = temporary_directory()
    engines = [torch_engine(directory, OPTIONS, idle_exit_seconds=0.5) for _ in range(3)]
    await asyncio.gather(*(engine.start() for engine in engines))
    await asyncio.gather(*(ready(engine) for engine in engines))
    assert len({engine.pid for engine in engines}) == 1
    for engine in engines:
        await engine.close()
    await ended(directory)
    assert "no worker has been connected" in directory.log_tail()
    assert "ends with status 0" in directory.log_tail()
    assert not directory.socket.exists()
    shutil.rmtree(directory.path)


async def test_a_model_that_cannot_be_loaded_is_said_with_the_end_of_the_log() -> None:
    directory = temporary_directory()
    broken = directory.path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{}")
    (broken / "model.safetensors").write_bytes(b"nothing")
    engine = torch_engine(directory, EngineOptions(model=str(broken)))
    engine.__dict__["tokenizer"] = None  # the worker's side is not what fails here
    await engine.start()
    await until_true(lambda: engine.fault is not None)
    assert engine.fault is not None
    assert "the engine ended while it started" in engine.fault
    assert "Error" in engine.fault
    with pytest.raises(EngineUnavailable, match="the engine ended while it started"):
        Submitted(engine, 1, [1], max_tokens=1)
    await engine.close()
    await ended(directory)
    shutil.rmtree(directory.path)
