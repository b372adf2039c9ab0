"""However a stream ends, it has paid for its prompt and what it emitted, and holds nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from millstream.admission import BytesInFlight, Limits, QueuePolicy, RequestRate, TokenWindow
from millstream.config import StreamPolicy
from millstream.errors import CostExceedsLimit, EngineUnavailable
from millstream.streams.branch import Deadlines
from millstream.streams.drain import Drain
from millstream.streams.orchestrator import BranchRequest, Generation, Orchestrator
from millstream.streams.stream import Stream
from millstream.streams.timers import StreamTimers
from millstream.types import Kind, Outcome, SamplingParams
from tests.unit.streams.parts import SECOND, Bench

PROMPT, MOST, TOKENS, PLACES, KIB, REQUESTS = 10, 50, 100_000, 200, 1 << 16, 10_000
LIMITS = Limits(
    RequestRate(1, REQUESTS),
    TokenWindow(TOKENS, 3_600_000),
    PLACES,
    BytesInFlight(KIB * 1024, per_stream=64 * 1024),
)
ERROR = '{"message":"m","type":"server_error","param":null,"code":"c"}'


class Rig:
    """An orchestrator over limits of every kind."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.bench = Bench(limits=limits)
        self.engine, self.registry = self.bench.engine, self.bench.registry
        self.drain = Drain(self.registry, seconds=0, shared=False, clock=lambda: 0)
        self.timers = StreamTimers(self.registry)
        self.opened: list[Stream] = []
        self.orchestrator = Orchestrator(
            registry=self.registry,
            admission=self.bench.admission,
            drain=self.drain,
            observer=self.bench.heard,
            store=self.bench.store,
            clock=lambda: self.bench.now_ns,
            wall_clock=lambda: 0,
        )

    async def open(self, branches: int = 1, **options: Any) -> Stream:
        branch = BranchRequest(
            model="m",
            engine=self.engine,
            prompt=[1] * PROMPT,
            params=SamplingParams(max_tokens=MOST),
            deadlines=Deadlines(SECOND, 2 * SECOND, 10 * SECOND),
        )
        opened = await self.orchestrator.open(
            Generation(
                route="chat.completion",
                dialect="chat",
                id_prefix="chatcmpl-",
                branches=(branch,) * branches,
                streamed=True,
                policy=StreamPolicy(max_bytes=1 << 20),
                **options,
            )
        )
        assert isinstance(opened, Stream)
        opened.attach()
        self.opened.append(opened)
        return opened

    @property
    def used(self) -> tuple[int, ...]:
        """Requests, tokens, places and KiB that are spent or held."""
        snapshot = self.bench.limiter.try_peek(self.bench.book.scopes("default", "m"))
        meters = (snapshot.requests, snapshot.tokens, snapshot.concurrency, snapshot.bytes)
        return tuple(meter.limit - meter.remaining for meter in meters if meter is not None)


End = Callable[[Rig, Stream], None]


def each(act: Callable[[Rig, int], None]) -> End:
    def end(rig: Rig, stream: Stream) -> None:
        for branch in stream.branches:
            act(rig, branch.request)

    return end


def pass_time(seconds: int) -> End:
    def end(rig: Rig, stream: Stream) -> None:
        rig.timers.sweep(0)
        rig.timers.sweep(seconds * SECOND)

    return end


def shed(rig: Rig, stream: Stream) -> None:
    rig.drain.begin()
    rig.drain.sweep(0)


def fail_after_usage(rig: Rig, request: int) -> None:
    usage = '{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}'
    rig.engine._append(request, Kind.USAGE, usage)
    rig.engine.fail(request, ERROR)


COUNTED = 7 + 3  # what the engine says with its usage: 7 of prompt
ENDINGS: dict[str, tuple[End, Outcome, int | None]] = {
    "completed": (each(lambda rig, n: rig.engine.finish(n, tokens=3)), Outcome.COMPLETED, COUNTED),
    "length": (each(lambda rig, n: rig.engine.finish(n, "length", tokens=3)), Outcome.LENGTH, 10),
    "cancelled": (lambda _, stream: stream.cancel(None), Outcome.CANCELLED, None),
    # litellm#35098, TokenHub#102, litellm#14457: charged nothing.
    "client gone": (lambda _, stream: stream.detach(), Outcome.CLIENT_GONE, None),
    "engine lost": (each(lambda rig, n: rig.engine.lose(n)), Outcome.ENGINE_LOST, None),
    # litellm#39462: what a stream had used when it failed was lost.
    "upstream cut": (each(lambda rig, n: rig.engine.fail(n, ERROR)), Outcome.UPSTREAM_ERROR, None),
    "upstream error": (each(fail_after_usage), Outcome.UPSTREAM_ERROR, 11),
    "no time left": (pass_time(11), Outcome.TIMEOUT_TOTAL, None),
    "shed": (shed, Outcome.SHED, None),
}


@pytest.mark.parametrize("branches", [1, 3])
@pytest.mark.parametrize("emitted", [0, 1, 40])
@pytest.mark.parametrize("ending", ENDINGS)
async def test_every_ending_pays_for_what_was_used_once_and_lets_go_of_the_rest(
    ending: str, emitted: int, branches: int
) -> None:
    rig = Rig()
    stream = await rig.open(branches)
    assert rig.used == (branches, branches * (PROMPT + MOST), branches, _held(branches))
    for branch in stream.branches:
        if emitted:
            rig.engine.token(branch.request, "x", count=emitted)
    end, outcome, counted = ENDINGS[ending]
    end(rig, stream)
    used = PROMPT + emitted if counted is None else counted
    for _ in range(2):
        assert rig.used == (branches, branches * used, 0, 0)
        stream.end(Outcome.CANCELLED)
    assert stream.outcome is outcome


def _held(branches: int) -> int:
    return branches * -(-64 // branches)


@pytest.mark.parametrize(
    ("seconds", "emitted", "outcome"),
    [(2, 0, Outcome.TIMEOUT_FIRST_TOKEN), (4, 5, Outcome.TIMEOUT_IDLE)],
)
async def test_so_does_each_timeout(seconds: int, emitted: int, outcome: Outcome) -> None:
    rig = Rig()
    stream = await rig.open()
    if emitted:
        rig.engine.token(stream.branches[0].request, "x", count=emitted)
    pass_time(seconds)(rig, stream)
    assert stream.outcome is outcome
    assert rig.used == (1, PROMPT + emitted, 0, 0)


async def test_a_stream_that_its_engine_does_not_take_costs_nothing() -> None:
    rig = Rig()
    rig.engine.ready = False
    with pytest.raises(EngineUnavailable):
        await rig.open(2)
    assert rig.used == (0, 0, 0, 0)


async def test_a_failure_before_the_engine_is_asked_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()

    def fail(_stream: Stream) -> None:
        raise LookupError

    monkeypatch.setattr(rig.registry, "add", fail)
    with pytest.raises(LookupError):
        await rig.open(2)
    assert rig.used == (0, 0, 0, 0)


async def test_a_stream_that_could_not_be_made_known_is_ended_and_pays_for_its_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()

    def fail(*_arguments: object) -> None:
        raise LookupError

    monkeypatch.setattr(rig.bench.store, "publish", fail)
    with pytest.raises(LookupError):
        await rig.open(resumable=True)
    assert rig.used == (1, PROMPT, 0, 0)
    assert (len(rig.engine.aborted), len(rig.registry)) == (1, 0)


async def test_branches_end_and_pay_one_by_one() -> None:
    rig = Rig()
    stream = await rig.open(3)
    first, second, third = (branch.request for branch in stream.branches)
    rig.engine.token(first, "x", count=5)
    stream.cancel(0)
    assert rig.used == (3, 2 * (PROMPT + MOST) + 15, 2, 44)
    rig.engine.lose(second)
    rig.engine.finish(third, tokens=3)
    assert rig.used == (3, 15 + 10 + COUNTED, 0, 0)


async def test_a_log_keeps_no_more_than_is_reserved_for_it() -> None:
    rig = Rig()
    stream = await rig.open(3)
    assert stream.descriptor.max_bytes == 64 * 1024
    small = Rig(Limits(bytes_in_flight=BytesInFlight(limit=8192, per_stream=1 << 20)))
    assert (await small.open()).descriptor.max_bytes == 8192
    assert small.used == (8,)
    free = Rig(Limits(concurrency=1))
    assert (await free.open()).descriptor.max_bytes == 1 << 20


async def test_memory_that_can_never_be_granted_is_refused_for_good() -> None:
    # Each branch's share is rounded up to whole units.
    rig = Rig(Limits(bytes_in_flight=BytesInFlight(limit=4096, per_stream=4096)))
    await rig.open(2)
    with pytest.raises(CostExceedsLimit, match="KiB together"):
        await rig.open(5)


# litellm#27955, #20256: places leaked on cancel, timeout, and even success.
@pytest.mark.parametrize("seed", range(5))
async def test_whatever_is_done_with_streams_nothing_is_held_when_all_have_ended(
    seed: int,
) -> None:
    random = Random(seed)
    rig = Rig(
        Limits(
            concurrency=8,
            tokens=TokenWindow(TOKENS, 3_600_000),
            bytes_in_flight=BytesInFlight(600 * 1024, per_stream=64 * 1024),
            queue=QueuePolicy(30, 60),
        )
    )
    opening: list[asyncio.Task[Stream]] = []
    for _ in range(300):
        match random.randrange(4):
            case 0 | 1:
                opening.append(asyncio.create_task(rig.open(random.choice((1, 1, 2)))))
            case 2 if opening:
                random.choice(opening).cancel()
            case _:
                running = [one for one in rig.registry if one.outcome is None]
                if running:
                    _do_something(random, rig, random.choice(running))
        for _ in range(random.randrange(4)):
            await asyncio.sleep(0)
    for task in opening:
        task.cancel()
    await asyncio.gather(*opening, return_exceptions=True)
    for stream in rig.opened:
        stream.end(Outcome.CLIENT_GONE)
    await asyncio.sleep(0)
    assert rig.bench.admission.waiting == 0
    charged = [branch.charged or 0 for stream in rig.opened for branch in stream.branches]
    assert len(charged) > 20
    assert rig.used == (sum(charged), 0, 0)


def _do_something(random: Random, rig: Rig, stream: Stream) -> None:
    open_branches = [branch for branch in stream.branches if branch.outcome is None]
    branch = random.choice(open_branches)
    match random.randrange(7):
        case 0 | 1:
            rig.engine.token(branch.request, "x", count=random.randint(1, 5))
        case 2:
            rig.engine.finish(branch.request, tokens=branch.token_count)
        case 3:
            rig.engine.lose(branch.request)
        case 4:
            rig.engine.fail(branch.request, ERROR)
        case 5:
            stream.cancel(branch.index)
        case _:
            stream.detach()
