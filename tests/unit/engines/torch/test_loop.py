"""The step loop on a runner twin, with the real rings and the real detokenizer."""

from __future__ import annotations

import logging
import os
import select
import threading

import pytest

from millstream._core import Emitter, RingConsumer, Vocabulary
from millstream.engines.torch.loop import EngineBroken, StepLoop, Worker
from millstream.engines.torch.outlet import Outlet
from millstream.engines.torch.pages import PagePool
from millstream.engines.torch.protocol import Submit
from millstream.engines.torch.scheduler import Scheduler
from millstream.types import Kind, SamplingParams
from tests.reference.records import Answer, Taken, by_stream, drain, ring_pair
from tests.reference.runner import PagedRunner, next_token

VOCABULARY = 200
EOS = 0
TOKENS = [b"<eos>", *(b"%d " % number for number in range(1, VOCABULARY))]


def alone(prompt: list[int], count: int, seed: int = 0) -> list[int]:
    """The tokens that a sequence generates alone."""
    history = list(prompt)
    for _ in range(count):
        history.append(next_token(history, seed, VOCABULARY))
    return history[len(prompt) :]


def text(tokens: list[int]) -> str:
    return "".join(TOKENS[token].decode() for token in tokens if token != EOS)


class Stand:
    """A loop that is turned by hand."""

    def __init__(self, *, overlap: bool = False, num_pages: int = 64, max_batch: int = 4) -> None:
        self.runner = PagedRunner(
            num_pages, page_size=4, max_batch=max_batch, vocabulary=VOCABULARY, overlap=overlap
        )
        self.pool = PagePool(num_pages, 4)
        scheduler = Scheduler(
            self.pool,
            self.runner,
            max_batch=max_batch,
            max_step_tokens=16,
            context_length=100,
            expected_output=8,
        )
        outlet = Outlet(Emitter(Vocabulary(TOKENS, [EOS])))
        self.loop = StepLoop(
            scheduler, self.runner, outlet, vocabulary_size=VOCABULARY, eos_ids=frozenset({EOS})
        )

    def worker(self, capacity: int = 1 << 16) -> tuple[Worker, RingConsumer]:
        consumer, producer = ring_pair(capacity)
        worker = Worker(producer, lambda: None)
        self.loop.attach(worker)
        return worker, consumer

    def submit(
        self, worker: Worker, request: int, prompt: list[int], **params: int | float | object
    ) -> None:
        params.setdefault("seed", 0)
        message = Submit(request, prompt, SamplingParams(**params))  # type: ignore[arg-type]
        self.loop.submit(worker, message)

    def turn(self, turns: int = 1) -> None:
        for _ in range(turns):
            self.loop._obey()
            self.loop._turn()

    def run(self) -> None:
        while self.loop._commands or self.loop._busy:
            self.turn()


@pytest.fixture(params=[False, True], ids=["in step", "overlapped"])
def stand(request: pytest.FixtureRequest) -> Stand:
    return Stand(overlap=request.param)


def answers(ring: RingConsumer) -> dict[int, Answer]:
    found = by_stream(drain(ring))
    for answer in found.values():
        answer.check()
    return found


def test_a_request_becomes_tokens_a_finish_and_its_usage(stand: Stand) -> None:
    worker, ring = stand.worker()
    stand.submit(worker, 7, [1, 2, 3], max_tokens=5, ignore_eos=True)
    stand.run()
    answer = answers(ring)[7]
    assert answer.texts == {0: text(alone([1, 2, 3], 5))}
    assert answer.reasons == {0: "length"}
    assert answer.usage == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    assert answer.tokens == 5
    assert worker.requests == {}


def prompt_that_ends_within(limit: int) -> tuple[list[int], int]:
    for first in range(1, VOCABULARY):
        tokens = alone([first], limit)
        if EOS in tokens:
            return [first], tokens.index(EOS) + 1
    raise AssertionError("no such prompt")


def test_the_end_token_ends_with_stop_and_counts(stand: Stand) -> None:
    prompt, length = prompt_that_ends_within(20)
    worker, ring = stand.worker()
    stand.submit(worker, 1, prompt, max_tokens=50)
    stand.submit(worker, 2, prompt, max_tokens=50, ignore_eos=True)
    stand.run()
    found = answers(ring)
    assert found[1].reasons == {0: "stop"}
    assert found[1].texts == {0: text(alone(prompt, length))}
    assert found[1].usage["completion_tokens"] == length == found[1].tokens
    assert found[2].reasons == {0: "length"}


def test_a_stop_string_ends_with_stop_and_is_not_shown(stand: Stand) -> None:
    tokens = alone([5], 6)
    stop = " " + TOKENS[tokens[3]].decode()
    worker, ring = stand.worker()
    stand.submit(worker, 1, [5], max_tokens=50, stop=(stop,), ignore_eos=True)
    stand.run()
    answer = answers(ring)[1]
    assert answer.reasons == {0: "stop"}
    assert answer.texts[0] == text(tokens).split(stop)[0]
    assert answer.usage["completion_tokens"] == 4


def test_choices_have_a_finish_each_and_one_usage_together(stand: Stand) -> None:
    worker, ring = stand.worker()
    stand.submit(worker, 1, [5, 6], max_tokens=3, n=3, seed=40, ignore_eos=True)
    stand.run()
    answer = answers(ring)[1]
    assert answer.texts == {n: text(alone([5, 6], 3, seed=40 + n)) for n in range(3)}
    assert answer.reasons == {0: "length", 1: "length", 2: "length"}
    assert answer.usage == {"prompt_tokens": 2, "completion_tokens": 9, "total_tokens": 11}


def test_without_a_seed_two_requests_differ(stand: Stand) -> None:
    worker, ring = stand.worker()
    for request in (1, 2):
        stand.submit(worker, request, [5], max_tokens=30, seed=None, ignore_eos=True)
    stand.run()
    found = answers(ring)
    assert found[1].texts != found[2].texts


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5])
def test_after_an_abort_nothing_is_written_and_no_page_is_held(stand: Stand, turns: int) -> None:
    # sgl-project/sglang#36333: a stream that nobody reads decodes to max_tokens.
    worker, ring = stand.worker()
    stand.submit(worker, 1, list(range(1, 40)), max_tokens=50, n=2, ignore_eos=True)
    stand.turn(turns)
    drain(ring)
    steps = len(stand.runner.steps)
    for _ in range(2):
        stand.loop.abort(worker, 1)
    stand.turn()
    assert drain(ring) == []
    assert len(stand.runner.steps) == steps
    assert (stand.pool.used, stand.runner.open_slots, worker.requests) == (0, 0, {})
    assert stand.loop.snapshot.requests_aborted == 1


def test_a_finished_request_can_be_aborted_without_effect(stand: Stand) -> None:
    worker, ring = stand.worker()
    stand.submit(worker, 1, [1], max_tokens=2, ignore_eos=True)
    stand.run()
    stand.loop.abort(worker, 1)
    stand.loop.abort(worker, 99)
    stand.turn()
    assert set(answers(ring)) == {1}
    assert stand.loop.snapshot.requests_aborted == 0


def test_a_worker_that_leaves_takes_its_requests_along_and_no_others(stand: Stand) -> None:
    worker, _ = stand.worker()
    other, ring = stand.worker()
    for request in range(3):
        stand.submit(worker, request, [1, request + 1], max_tokens=40, ignore_eos=True)
    stand.submit(other, 0, [9], max_tokens=6, ignore_eos=True)
    stand.turn(3)
    stand.loop.detach(worker)
    stand.turn()
    assert stand.loop.snapshot.running == 1
    stand.run()
    assert answers(ring)[0].texts == {0: text(alone([9], 6))}
    assert stand.pool.used == 0


@pytest.mark.parametrize(
    ("prompt", "params", "code"),
    [
        (list(range(1, 101)), {"max_tokens": 1}, "context_length_exceeded"),
        ([], {"max_tokens": 1}, "invalid_value"),
        ([VOCABULARY], {"max_tokens": 1}, "invalid_value"),
        ([-1], {"max_tokens": 1}, "invalid_value"),
        ([1], {"max_tokens": 0}, "invalid_value"),
        ([1], {"max_tokens": 1, "stop": ("",)}, "engine_error"),
        ([1], {"max_tokens": 1, "n": 3, "temperature": -1.0}, "engine_error"),
    ],
)
def test_a_bad_request_gets_an_error_and_the_others_nothing(
    stand: Stand, prompt: list[int], params: dict[str, object], code: str
) -> None:
    worker, ring = stand.worker()
    stand.submit(worker, 1, [1, 2], max_tokens=4, ignore_eos=True)
    stand.submit(worker, 2, prompt, **params)
    stand.run()
    found = answers(ring)
    assert found[2].error["code"] == code
    assert [record.kind for record in found[2].records] == [Kind.ERROR]
    assert found[1].texts == {0: text(alone([1, 2], 4))}
    assert worker.requests == {}


def test_a_request_number_in_use_is_ignored_and_the_first_goes_on(stand: Stand) -> None:
    worker, ring = stand.worker()
    stand.submit(worker, 1, [1, 2], max_tokens=4, ignore_eos=True)
    stand.submit(worker, 1, [3], max_tokens=4, ignore_eos=True)
    stand.run()
    assert answers(ring)[1].texts == {0: text(alone([1, 2], 4))}


def test_a_failed_step_ends_what_ran_in_it_and_the_loop_goes_on(stand: Stand) -> None:
    worker, ring = stand.worker()
    for request in range(6):
        stand.submit(worker, request, [1, request + 1], max_tokens=6, ignore_eos=True)
    stand.turn(2)
    stand.runner.broken = RuntimeError("out of memory")
    stand.turn()
    stand.runner.broken = None
    stand.run()
    found = answers(ring)
    for request in range(4):
        assert found[request].error["code"] == "engine_error"
        assert found[request].error["type"] == "server_error"
    for request in (4, 5):
        assert found[request].texts == {0: text(alone([1, request + 1], 6))}
    assert (stand.pool.used, stand.runner.open_slots, worker.requests) == (0, 0, {})


def test_pages_of_a_failed_step_are_not_reused(stand: Stand) -> None:
    worker, ring = stand.worker()
    stand.runner.broken = RuntimeError("out of memory")
    stand.submit(worker, 1, list(range(1, 14)), max_tokens=2, ignore_eos=True)
    stand.turn()
    stand.runner.broken = None
    stand.submit(worker, 2, list(range(1, 14)), max_tokens=2, ignore_eos=True)
    stand.run()
    assert answers(ring)[2].texts == {0: text(alone(list(range(1, 14)), 2))}


def test_steps_that_fail_without_end_end_the_engine(stand: Stand) -> None:
    worker, _ = stand.worker()
    stand.runner.broken = RuntimeError("device lost")
    for request in range(7):
        stand.submit(worker, request, [1], max_tokens=2)
        stand.turn()
    stand.submit(worker, 7, [1], max_tokens=2)
    with pytest.raises(EngineBroken):
        stand.turn()


def test_a_full_ring_stops_nothing_and_loses_nothing(stand: Stand) -> None:
    worker, ring = stand.worker(capacity=4096)
    for request in range(3):
        stand.submit(worker, request, [1, request + 1], max_tokens=90, ignore_eos=True)
    stand.run()
    assert stand.loop.snapshot.running == 0
    records = []
    while worker.ring.pending:
        records += drain(ring)
        worker.ring.flush()
    records += drain(ring)
    for request, answer in by_stream(records).items():
        answer.check()
        assert answer.texts == {0: text(alone([1, request + 1], 90))}
        assert answer.tokens == 90


def test_a_full_ring_is_offered_its_records_again_while_the_engine_is_idle() -> None:
    stand = Stand()
    worker, ring = stand.worker(capacity=4096)
    stand.submit(worker, 1, [1], max_tokens=90, n=4, ignore_eos=True)
    stand.run()
    assert worker.ring.pending
    records = []
    while worker.ring.pending:
        records += drain(ring)
        stand.turn()
    records += drain(ring)
    assert by_stream(records)[1].tokens == 360


def test_a_broken_ring_costs_only_its_own_worker() -> None:
    stand = Stand()
    worker, ring = stand.worker()
    broken: list[bool] = []

    class BrokenRing:
        pending = 0

        def flush(self) -> int:
            raise ConnectionError("corrupt")

    stand.loop.attach(Worker(BrokenRing(), lambda: broken.append(True)))  # type: ignore[arg-type]
    stand.submit(worker, 1, [1, 2], max_tokens=4, ignore_eos=True)
    stand.run()
    assert broken == [True]
    assert answers(ring)[1].texts == {0: text(alone([1, 2], 4))}


def test_an_idle_loop_waits_for_work_and_stops_when_told() -> None:
    stand = Stand()
    thread = threading.Thread(target=stand.loop.run)
    thread.start()
    worker, ring = stand.worker()
    stand.submit(worker, 1, [1, 2], max_tokens=4, ignore_eos=True)
    records: list[Taken] = []
    while not records or records[-1].kind is not Kind.USAGE:
        poll = select.poll()
        poll.register(ring, select.POLLIN)
        poll.poll()
        records += drain(ring)
    stand.loop.stop()
    thread.join()
    assert by_stream(records)[1].texts == {0: text(alone([1, 2], 4))}


def test_the_age_of_progress_starts_anew_when_an_idle_loop_gets_work() -> None:
    stand = Stand()
    worker, _ = stand.worker()
    stand.turn()
    before = stand.loop.snapshot.progress_ns
    stand.submit(worker, 1, [1], max_tokens=2)
    stand.loop._obey()
    assert stand.loop.snapshot.progress_ns > before
    stats = stand.loop.snapshot.stats(stand.loop.snapshot.progress_ns + 3)
    assert (stats.pid, stats.waiting, stats.idle_ns) == (os.getpid(), 1, 3)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "millstream")
