"""Which sequences compute what in the next step: continuous batching over pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from millstream.engines.torch.batch import Batch, Row
from millstream.engines.torch.pages import PagePool
from millstream.engines.torch.sequence import Phase, Request, Sequence
from millstream.errors import ContextLengthExceeded, InvalidParameter
from millstream.types import SamplingParams

WATERMARK_PERCENT = 5
"""Share of the pages that admission leaves free, for outputs longer than expected."""


class SlotStates(Protocol):
    """The device-side state of ``max_batch`` sequences, kept by the model runner."""

    def open_slot(
        self,
        slot: int,
        params: SamplingParams,
        *,
        seed: int,
        prompt: list[int],
        generated: list[int],
    ) -> None:
        """Give a slot to a sequence."""

    def close_slot(self, slot: int) -> None:
        """Forget the slot's sequence."""


@dataclass(frozen=True, slots=True)
class Step:
    """A batch and the sequences that sample in it, in row order."""

    batch: Batch
    sampling: tuple[Sequence, ...]


class Scheduler:
    """Waiting and running sequences, first come first served.

    Decodes go first in every step; prompts share what is left of the step's token budget, so a
    long one is computed in chunks and does not stop the others. Not thread-safe: one thread owns
    it, together with the pool and the slots.
    """

    def __init__(
        self,
        pool: PagePool,
        slots: SlotStates,
        *,
        max_batch: int,
        max_step_tokens: int,
        context_length: int,
        expected_output: int = 256,
    ) -> None:
        self.pool = pool
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.failed: list[tuple[Request, Exception]] = []
        """Requests that could not be admitted because of an error of their own."""
        self.preemptions = 0
        self.max_length = min(context_length, pool.num_pages * pool.page_size)
        self._slots = slots
        self._free_slots = list(range(max_batch))[::-1]
        self._max_step_tokens = max_step_tokens
        self._watermark = -(-pool.num_pages * WATERMARK_PERCENT // 100)
        self._typical_output = expected_output
        self._arrivals = 0

    def add(self, request: Request) -> None:
        """Queue every choice of a request.

        Raises `ContextLengthExceeded` if the prompt leaves no room for a token in the context or
        in the whole cache, and `InvalidParameter` if there is nothing to compute.
        """
        prompt, params = request.prompt, request.params
        if not prompt or params.max_tokens < 1 or params.n < 1:
            raise InvalidParameter("a prompt, max_tokens and n must each be at least 1")
        if len(prompt) >= self.max_length:
            raise ContextLengthExceeded(
                f"the prompt has {len(prompt)} tokens; prompt and completion together "
                f"can have at most {self.max_length}"
            )
        max_length = min(len(prompt) + params.max_tokens, self.max_length)
        for choice in range(params.n):
            sequence = Sequence(request, choice, self._arrivals, max_length)
            self._arrivals += 1
            request.choices.append(sequence)
            self.waiting.append(sequence)

    def abort(self, request: Request) -> None:
        """End every choice now, wherever it is; its pages are free when this returns."""
        for sequence in request.choices:
            if sequence.phase is Phase.WAITING:
                self.waiting.remove(sequence)
                sequence.phase = Phase.FINISHED
            elif sequence.phase is Phase.RUNNING:
                self._release(sequence, Phase.FINISHED)

    def finish(self, sequence: Sequence) -> None:
        """End a running sequence that has generated all it should."""
        self._release(sequence, Phase.FINISHED)
        self._typical_output += (len(sequence.output) - self._typical_output) // 8

    def forget_prefixes(self) -> None:
        """After a failed step: what it should have written must not be shared."""
        self.pool.forget_all()

    @property
    def short_of_pages(self) -> bool:
        """Whether the next `schedule` would preempt.

        Ids in flight have to be settled before: a preempted sequence is computed again from
        tokens that the host knows.
        """
        return sum(self._lacks_page(sequence) for sequence in self.running) > self.pool.free

    def schedule(self) -> Step | None:
        """The next step, or None if nothing can be computed now."""
        self._extend_decodes()
        rows: list[Row] = []
        sampling: list[Sequence] = []
        budget = self._max_step_tokens
        for sequence in self._due():
            count = min(self._tokens_due(sequence), budget)
            rows.append(self._advance(sequence, count))
            if rows[-1].sample:
                sampling.append(sequence)
            budget -= count
            if not budget:
                break
        return Step(Batch(rows), tuple(sampling)) if rows else None

    def settle(self, step: Step, ids: list[int]) -> list[Sequence]:
        """Take in the sampled ids; returns the sequences they were still wanted for.

        The id is the last of the sequence's ``output``.
        """
        wanted = []
        for sequence, token in zip(step.sampling, ids, strict=True):
            if sequence.phase is Phase.RUNNING:
                sequence.in_flight -= 1
                sequence.output.append(token)
                self._register_pages(sequence)
                wanted.append(sequence)
        return wanted

    def _due(self) -> Iterable[Sequence]:
        """Decodes, then prompts under way, then newly admitted ones, each first come first."""
        yield from [sequence for sequence in self.running if sequence.decoding]
        yield from [sequence for sequence in self.running if sequence.prefilling]
        while self.waiting and self._free_slots and self._admit(self.waiting[0]):
            yield self.running[-1]

    @staticmethod
    def _tokens_due(sequence: Sequence) -> int:
        return sequence.prefill_target - sequence.num_cached_tokens if sequence.prefilling else 1

    def _advance(self, sequence: Sequence, count: int) -> Row:
        start = sequence.num_cached_tokens
        prefill = sequence.prefilling
        sequence.num_cached_tokens += count
        tokens = sequence.tokens(start, start + count) if prefill else ()
        if prefill:
            # A layer writes the keys and values of all rows before any row attends, so what this
            # step computes can be shared by rows of this very step: n choices prefill once.
            self._register_pages(sequence)
        sample = not sequence.prefilling
        sequence.in_flight += sample
        return Row(sequence.slot, sequence.block_table, start, tokens, sample)

    def _admit(self, sequence: Sequence) -> bool:
        """Move the first waiting sequence to running if its pages can be set aside."""
        known, size = sequence.num_known_tokens, self.pool.page_size
        # One token must be left to compute, or there would be nothing to sample from.
        shared = self.pool.match(sequence.keys((known - 1) // size, size))
        expected = self.pool.pages_for(self._expected_length(sequence))
        if self.running and not self._fits(expected - len(shared), shared):
            return False
        if not self._open_slot(sequence):
            return False
        self.waiting.popleft()
        self.running.append(sequence)
        self.pool.share(shared)
        own = self.pool.allocate(self.pool.pages_for(known) - len(shared))
        sequence.admit(shared, own, expected, size)
        return True

    def _open_slot(self, sequence: Sequence) -> bool:
        request = sequence.request
        try:
            self._slots.open_slot(
                self._free_slots[-1],
                request.params,
                seed=sequence.seed,
                prompt=request.prompt,
                generated=sequence.output,
            )
        except Exception as error:  # one request's parameters must not end the others
            self.abort(request)
            self.failed.append((request, error))
            return False
        sequence.slot = self._free_slots.pop()
        return True

    def _fits(self, own: int, shared: list[int]) -> bool:
        """Whether ``own`` further pages are free beside what others were promised."""
        revived = sum(self.pool.references(page) == 0 for page in shared)
        promised = sum(
            max(0, other.expected_pages - len(other.block_table)) for other in self.running
        )
        return own + promised + self._watermark <= self.pool.free - revived

    def _expected_length(self, sequence: Sequence) -> int:
        expected = max(self._typical_output - len(sequence.output), self.pool.page_size)
        return min(sequence.num_known_tokens + expected, sequence.max_length)

    def _register_pages(self, sequence: Sequence) -> None:
        size = self.pool.page_size
        full = min(sequence.num_cached_tokens, sequence.num_known_tokens) // size
        if full > sequence.num_registered_pages:
            keys = sequence.keys(full, size)
            for index in range(sequence.num_registered_pages, full):
                self.pool.register(sequence.block_table[index], keys[index])
            sequence.num_registered_pages = full

    def _lacks_page(self, sequence: Sequence) -> bool:
        return sequence.decoding and (
            self.pool.pages_for(sequence.num_tokens) > len(sequence.block_table)
        )

    def _extend_decodes(self) -> None:
        for sequence in list(self.running):
            while sequence.phase is Phase.RUNNING and self._lacks_page(sequence):
                if self.pool.free:
                    sequence.block_table += self.pool.allocate(1)
                else:
                    self._preempt()

    def _preempt(self) -> None:
        """Send back the sequence that loses least; its tokens are computed again later."""
        victim = min(self.running, key=lambda one: (one.num_cached_tokens, -one.arrival))
        if victim.in_flight:
            raise RuntimeError("ids in flight must be settled before a preemption")
        self._release(victim, Phase.WAITING)
        self.preemptions += 1
        place = next(
            (i for i, other in enumerate(self.waiting) if other.arrival > victim.arrival),
            len(self.waiting),
        )
        self.waiting.insert(place, victim)

    def _release(self, sequence: Sequence, phase: Phase) -> None:
        self.running.remove(sequence)
        self.pool.release(sequence.block_table)
        self._slots.close_slot(sequence.slot)
        self._free_slots.append(sequence.slot)
        sequence.leave(phase)
