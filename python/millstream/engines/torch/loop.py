"""The step loop: commands between steps, one forward pass a step, records out."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

from millstream.engines.torch.outlet import Outlet
from millstream.engines.torch.protocol import Submit
from millstream.engines.torch.scheduler import Scheduler, Step
from millstream.engines.torch.sequence import Phase, Request, Sequence
from millstream.engines.torch.snapshot import Snapshot
from millstream.errors import EngineError, InvalidParameter, RequestError

if TYPE_CHECKING:
    from millstream._core import RingProducer
    from millstream.engines.torch.batch import Batch, StepHandle

_log = logging.getLogger(__name__)

_FULL_RING_RETRY_SECONDS = 0.01
"""How long an idle loop waits before it offers a full ring its records again."""

_MAX_FAILED_STEPS = 8
"""Failed steps in a row after which the device is taken for lost and the process ends."""


class Runner(Protocol):
    """The model, as far as the loop drives it."""

    @property
    def overlap(self) -> bool:
        """Whether ids are read one step late."""
        ...

    def step(self, batch: Batch) -> StepHandle:
        """One forward pass."""
        ...


class EngineBroken(Exception):
    """Step after step has failed, so that only a new process can help."""


@dataclass(eq=False, slots=True)
class Worker:
    """One connected worker: its ring, and its requests that have not ended."""

    ring: RingProducer
    on_broken: Callable[[], None]
    """Called from the loop's thread when the ring can no longer be written."""
    requests: dict[int, Request] = field(default_factory=dict)


class StepLoop:
    """Runs in a thread of its own; `attach`, `submit`, `abort`, `detach`, `stop` from any."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: Runner,
        outlet: Outlet,
        *,
        vocabulary_size: int,
        eos_ids: frozenset[int],
    ) -> None:
        self.snapshot = Snapshot(pages_total=scheduler.pool.num_pages)
        self._scheduler = scheduler
        self._runner = runner
        self._outlet = outlet
        self._vocabulary_size = vocabulary_size
        self._eos_ids = eos_ids
        self._wake = threading.Condition()
        self._commands: list[Callable[[], None]] = []
        self._workers: list[Worker] = []
        self._pending: tuple[Step, StepHandle] | None = None
        self._stopped = False
        self._steps = self._tokens = self._aborted = self._failures = 0
        self._last_step_ns = self._progress_ns = 0

    def attach(self, worker: Worker) -> None:
        """Serve a worker."""
        self._command(lambda: self._workers.append(worker))

    def submit(self, worker: Worker, message: Submit) -> None:
        """Generate for a worker; what is wrong with the request becomes its ERROR record."""
        self._command(lambda: self._submit(worker, message))

    def abort(self, worker: Worker, request: int) -> None:
        """Stop before the next step; unknown and finished requests are ignored."""
        self._command(lambda: self._abort(worker, request))

    def detach(self, worker: Worker) -> None:
        """Stop everything that a worker asked for."""
        self._command(lambda: self._detach(worker))

    def stop(self) -> None:
        """Let `run` return after the step in progress."""
        self._command(self._stop)

    def run(self) -> None:
        """Step until `stop`; raises `EngineBroken`."""
        while self._obey():
            self._turn()

    def _command(self, command: Callable[[], None]) -> None:
        with self._wake:
            self._commands.append(command)
            self._wake.notify()

    def _obey(self) -> bool:
        """Carry out what was asked since the last step; waits while there is nothing to do."""
        with self._wake:
            if not self._commands and not self._busy:
                full = any(worker.ring.pending for worker in self._workers)
                self._wake.wait(_FULL_RING_RETRY_SECONDS if full else None)
            commands, self._commands = self._commands, []
        was_busy = self._busy
        for command in commands:
            command()
        if self._busy and not was_busy:
            self._progress_ns = time.monotonic_ns()
        self._publish()
        return not self._stopped

    @property
    def _busy(self) -> bool:
        scheduler = self._scheduler
        return bool(scheduler.waiting or scheduler.running or self._pending)

    def _turn(self) -> None:
        try:
            if self._busy:
                self._step()
            self._failures = 0
        except Exception as error:
            _log.exception("a step failed")
            self._fail_running(error)
        self._flush()
        self._publish()

    def _step(self) -> None:
        started = time.monotonic_ns()
        if self._pending and self._scheduler.short_of_pages:
            self._settle_pending()
        step = self._scheduler.schedule()
        self._report_failed()
        launched = (step, self._runner.step(step.batch)) if step else None
        if self._runner.overlap:
            # The ids of the step before are read while this one runs.
            self._settle_pending()
            self._pending = launched
        elif launched:
            self._settle(*launched)
        self._steps += step is not None
        self._progress_ns = time.monotonic_ns()
        self._last_step_ns = self._progress_ns - started

    def _settle_pending(self) -> None:
        pending, self._pending = self._pending, None
        if pending:
            self._settle(*pending)

    def _settle(self, step: Step, handle: StepHandle) -> None:
        sequences = self._scheduler.settle(step, handle.ids())
        self._tokens += len(sequences)
        now = time.time_ns()
        stopped = self._outlet.write_tokens(sequences, now)
        for sequence in sequences:
            if reason := self._finish_reason(sequence, stopped):
                self._finish(sequence, reason, now)

    def _finish_reason(self, sequence: Sequence, stopped: set[Sequence]) -> str | None:
        ended = sequence.output[-1] in self._eos_ids and not sequence.request.params.ignore_eos
        if ended or sequence in stopped:
            return "stop"
        return "length" if sequence.complete else None

    def _finish(self, sequence: Sequence, reason: str, now: int) -> None:
        self._scheduler.finish(sequence)
        self._outlet.finish(sequence, reason, now)
        if sequence.request.finished:
            self._outlet.end(sequence.request, now)
            self._forget(sequence.request)

    def _submit(self, worker: Worker, message: Submit) -> None:
        if worker not in self._workers or message.request in worker.requests:
            _log.error("%s refused: a second time, or of no worker", _named(message))
            return
        params = message.params
        seed = random.getrandbits(62) if params.seed is None else params.seed
        request = Request((worker, message.request), message.prompt, params, seed)
        worker.requests[message.request] = request
        try:
            self._outlet.open(request, worker.ring, message.request)
            self._check_tokens(request)
            self._scheduler.add(request)
        except RequestError as error:
            self._fail(request, error)
        except Exception as error:
            _log.exception("%s could not be queued", _named(message))
            self._fail(request, error)

    def _check_tokens(self, request: Request) -> None:
        # One id beyond the embedding would fail the whole step, on CUDA the whole device.
        if not all(0 <= token < self._vocabulary_size for token in request.prompt):
            raise InvalidParameter("the prompt holds a token id that the model does not know")

    def _abort(self, worker: Worker, number: int) -> None:
        request = worker.requests.get(number)
        if request is not None:
            self._scheduler.abort(request)
            self._outlet.abort(request)
            self._forget(request)
            self._aborted += 1

    def _detach(self, worker: Worker) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
        for number in list(worker.requests):
            self._abort(worker, number)

    def _stop(self) -> None:
        self._stopped = True

    def _report_failed(self) -> None:
        failed, self._scheduler.failed = self._scheduler.failed, []
        for request, error in failed:
            _log.error("a request could not be started", exc_info=error)
            self._fail(request, error)

    def _fail_running(self, error: Exception) -> None:
        """A step has failed: what ran in it ends, what waits is tried in the next."""
        self._failures += 1
        if self._failures >= _MAX_FAILED_STEPS:
            raise EngineBroken(f"{self._failures} steps in a row have failed") from error
        self._pending = None
        for request in [one for worker in self._workers for one in worker.requests.values()]:
            if any(choice.phase is not Phase.WAITING for choice in request.choices):
                self._scheduler.abort(request)
                self._fail(request, EngineError("the engine failed while it worked on this"))
        self._scheduler.forget_prefixes()

    def _fail(self, request: Request, error: Exception) -> None:
        self._outlet.fail(request, error, time.time_ns())
        self._forget(request)

    @staticmethod
    def _forget(request: Request) -> None:
        worker, number = cast("tuple[Worker, int]", request.key)
        del worker.requests[number]

    def _flush(self) -> None:
        """Show every worker its new records, one signal each."""
        for worker in list(self._workers):
            try:
                worker.ring.flush()
            except Exception:
                _log.exception("a worker's ring is broken")
                self._detach(worker)
                worker.on_broken()

    def _publish(self) -> None:
        scheduler = self._scheduler
        self.snapshot = Snapshot(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            pages_used=scheduler.pool.used,
            pages_total=scheduler.pool.num_pages,
            steps=self._steps,
            tokens_generated=self._tokens,
            requests_aborted=self._aborted,
            last_step_ns=self._last_step_ns,
            progress_ns=self._progress_ns,
        )


def _named(message: Submit) -> str:
    """A request by its number, and by what those who sent it call their work."""
    return f"request {message.request} (flow {message.flow_id[:100]!r})"
