"""Where a validated request becomes a stream."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from millstream._core import Log
from millstream.admission import Lease, Refusal, estimated_cost
from millstream.errors import EngineUnavailable
from millstream.streams.stream import Deadlines, Stream
from millstream.types import SamplingParams

if TYPE_CHECKING:
    from millstream.admission import MemoryLimiter
    from millstream.engines.base import Engine
    from millstream.streams.drain import Drain
    from millstream.streams.registry import StreamRegistry


LARGEST_LOG = 1 << 30
"""Bytes and records; a log takes no larger bounds."""


class Observer(Protocol):
    """Hears of every stream twice: when it is admitted and when all of it is released."""

    def admitted(self, stream: Stream) -> None:
        """The stream has begun."""

    def closed(self, stream: Stream) -> None:
        """The stream has its outcome and its readers are gone."""


@dataclass(frozen=True, slots=True)
class Generation:
    """What a client asked for, checked and in tokens."""

    route: str
    model: str
    engine: Engine
    prompt: list[int]
    params: SamplingParams
    deadlines: Deadlines
    streamed: bool
    """Whether a reader follows; if not, the answer is the whole text and all of it is kept."""

    @property
    def cost(self) -> int:
        """The most tokens that this can come to."""
        return estimated_cost(len(self.prompt), self.params.max_tokens, self.params.n)


class Orchestrator:
    """Admits generations and owns the streams that they become."""

    def __init__(
        self,
        *,
        registry: StreamRegistry,
        limiter: MemoryLimiter,
        drain: Drain,
        observer: Observer,
        log_bytes: int,
        log_records: int,
        clock: Callable[[], int],
        wall_clock: Callable[[], int],
    ) -> None:
        self._registry = registry
        self._limiter = limiter
        self._drain = drain
        self._observer = observer
        self._log_bytes = log_bytes
        self._log_records = log_records
        self._clock = clock
        self._wall_clock = wall_clock
        self._requests = itertools.count(1)

    def open(self, generation: Generation) -> Stream | Refusal:
        """Admit and start a stream, or say which limit refuses it.

        Raises `EngineUnavailable` while the engine is away or the server leaves, and
        `CostExceedsLimit` where waiting would not help; nothing is charged then.
        """
        if self._drain.begun:
            raise EngineUnavailable("The server is shutting down.")
        admitted = self._limiter.admit(generation.model, generation.cost)
        if isinstance(admitted, Refusal):
            return admitted
        stream = self._stream(generation, admitted)
        self._registry.add(stream)
        self._observer.admitted(stream)
        stream.start(generation.prompt, generation.params)
        return stream

    def _stream(self, generation: Generation, lease: Lease) -> Stream:
        return Stream(
            id=secrets.token_urlsafe(18),
            request=next(self._requests),
            model=generation.model,
            route=generation.route,
            engine=generation.engine,
            lease=lease,
            log=self._log(generation),
            prompt_tokens=len(generation.prompt),
            deadlines=generation.deadlines,
            admitted_ns=self._clock(),
            wall_clock=self._wall_clock,
            on_closed=self._closed,
        )

    def _log(self, generation: Generation) -> Log:
        if generation.streamed:
            return Log(max_bytes=self._log_bytes, max_records=self._log_records)
        # ``max_tokens`` bounds it.
        return Log(max_bytes=LARGEST_LOG, max_records=LARGEST_LOG)

    def _closed(self, stream: Stream) -> None:
        self._registry.discard(stream)
        self._observer.closed(stream)
