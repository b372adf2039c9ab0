"""Writes what sequences produce as records into the rings of the workers that asked for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from millstream.engines.torch.sequence import Request, Sequence
from millstream.errors import EngineError, MillstreamError, RequestError
from millstream.types import Failure, Kind, Usage

if TYPE_CHECKING:
    from millstream._core import Emitter, RingProducer


class _Destination(NamedTuple):
    ring: RingProducer
    stream: int
    emitters: dict[int, int]
    """Emitter slot of each choice that is open."""


def failure_of(error: Exception) -> Failure:
    """What the client is told of an error; an unforeseen one keeps its words to itself."""
    if not isinstance(error, MillstreamError):
        return Failure("the engine failed on this request", "server_error", EngineError.code)
    mine = isinstance(error, RequestError)
    return Failure(str(error), "invalid_request_error" if mine else "server_error", error.code)


class Outlet:
    """Records of every open request. Not thread-safe: the step loop owns it."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._open: dict[Request, _Destination] = {}

    def open(self, request: Request, ring: RingProducer, stream: int) -> None:
        """Prepare to write the records of ``request`` as those of ``stream``."""
        self._open[request] = destination = _Destination(ring, stream, {})
        stop = list(request.params.stop)
        for choice in range(request.params.n):
            destination.emitters[choice] = self._emitter.open(ring, stream, choice, stop)

    def write_tokens(self, sequences: Iterable[Sequence], time_ns: int) -> set[Sequence]:
        """Write the last token of each sequence; returns those that met a stop string."""
        by_slot = {self._slot(sequence): sequence for sequence in sequences}
        ids = [sequence.output[-1] for sequence in by_slot.values()]
        stopped = self._emitter.step(list(by_slot), ids, time_ns)
        return {by_slot[slot] for slot in stopped}

    def finish(self, sequence: Sequence, reason: str, time_ns: int) -> None:
        """End one choice."""
        slot = self._open[sequence.request].emitters.pop(sequence.choice)
        self._emitter.finish(slot, reason, time_ns)

    def end(self, request: Request, time_ns: int) -> None:
        """Write the request's usage, its last record."""
        ring, stream, _ = self._open.pop(request)
        # The prompt counts once, however many choices there are.
        usage = Usage(len(request.prompt), request.completion_tokens)
        ring.write(stream, Kind.USAGE, usage.to_json(), time_ns=time_ns)

    def fail(self, request: Request, error: Exception, time_ns: int) -> None:
        """Write the request's error, its last record; what it has generated stays written."""
        ring, stream, _ = self._close(request)
        ring.write(stream, Kind.ERROR, failure_of(error).to_json(), time_ns=time_ns)

    def abort(self, request: Request) -> None:
        """Write nothing more of a request, not even what waits for room in the ring."""
        ring, stream, _ = self._close(request)
        ring.discard(stream)

    def _close(self, request: Request) -> _Destination:
        destination = self._open.pop(request)
        for slot in destination.emitters.values():
            self._emitter.close(slot)
        return destination

    def _slot(self, sequence: Sequence) -> int:
        return self._open[sequence.request].emitters[sequence.choice]
