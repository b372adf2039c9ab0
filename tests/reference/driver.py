"""Drives a scheduler over a `PagedRunner` as the step loop does, and records what came out."""

from __future__ import annotations

from collections.abc import Sequence as Many

from millstream.engines.torch.pages import PagePool
from millstream.engines.torch.scheduler import Scheduler, Step
from millstream.engines.torch.sequence import Request, Sequence
from millstream.types import SamplingParams
from tests.reference.runner import PagedRunner, Sampled, next_token


class Driver:
    """One scheduler, one runner; a step more in flight if the runner overlaps."""

    def __init__(
        self,
        *,
        num_pages: int = 16,
        page_size: int = 4,
        max_batch: int = 4,
        max_step_tokens: int = 16,
        context_length: int = 1000,
        expected_output: int = 8,
        overlap: bool = False,
        vocabulary: int = 1000,
    ) -> None:
        self.runner = PagedRunner(
            num_pages,
            page_size=page_size,
            max_batch=max_batch,
            overlap=overlap,
            vocabulary=vocabulary,
        )
        self.pool = PagePool(num_pages, page_size)
        self.scheduler = Scheduler(
            self.pool,
            self.runner,
            max_batch=max_batch,
            max_step_tokens=max_step_tokens,
            context_length=context_length,
            expected_output=expected_output,
        )
        self.ends: list[tuple[object, int]] = []
        self._pending: tuple[Step, Sampled] | None = None

    def add(
        self, key: object, prompt: Many[int], *, seed: int = 0, **params: int | float
    ) -> Request:
        """Queue a request; ``params`` are those of `SamplingParams`."""
        request = Request(key, list(prompt), SamplingParams(**params), seed)  # type: ignore[arg-type]
        self.scheduler.add(request)
        return request

    @property
    def busy(self) -> bool:
        return bool(self.scheduler.waiting or self.scheduler.running or self._pending)

    def step(self) -> Step | None:
        """One turn of the loop."""
        if self.scheduler.short_of_pages:
            self._settle()
        step = self.scheduler.schedule()
        pending = (step, self.runner.step(step.batch)) if step else None
        if self.runner.overlap:
            pending, self._pending = self._pending, pending
        self._take_in(pending)
        self.check()
        return step

    def run(self, turns: int = 10_000) -> None:
        """Turn until nothing is left."""
        while self.busy:
            self.step()
            turns -= 1
            assert turns, "the scheduler makes no progress"

    def check(self) -> None:
        """What must hold between any two steps."""
        running, pool = self.scheduler.running, self.pool
        held = [page for sequence in running for page in sequence.block_table]
        assert pool.used == len(set(held))
        for page in set(held):
            assert pool.references(page) == held.count(page)
        slots = [sequence.slot for sequence in running]
        assert len(set(slots)) == len(slots) == self.runner.open_slots
        writable = [
            page
            for sequence in running
            for page in sequence.block_table[sequence.num_cached_tokens // pool.page_size :]
        ]
        assert all(held.count(page) == 1 for page in writable)

    def _settle(self) -> None:
        pending, self._pending = self._pending, None
        self._take_in(pending)

    def _take_in(self, pending: tuple[Step, Sampled] | None) -> None:
        if pending is None:
            return
        step, handle = pending
        for sequence in self.scheduler.settle(step, handle.ids()):
            if sequence.complete:
                self.ends.append((sequence.request.key, sequence.choice))
                self.scheduler.finish(sequence)


def expected_output(sequence: Sequence, vocabulary: int = 1000) -> list[int]:
    """What the sequence generates when it is alone."""
    history = list(sequence.request.prompt)
    while len(history) < sequence.max_length:
        history.append(next_token(history, sequence.seed, vocabulary))
    return history[len(sequence.request.prompt) :]
