"""An engine at the other end of a real ring, as the torch engine is."""

from __future__ import annotations

import os

from millstream._core import Log, RingConsumer, RingProducer
from millstream.engines.base import (
    NO_CONTEXT,
    EndCallback,
    EngineEnd,
    EngineStats,
    ModelInfo,
    RequestContext,
    Tokenizer,
    shortened,
)
from millstream.streams.hub import Hub, Wakeups
from millstream.types import Kind, SamplingParams


class RingEngine:
    """Writes what it is told to for every request; aborted ones are detached from the hub."""

    name = "ring"
    ready = True
    model_info: ModelInfo | None = None

    def __init__(self, wakeups: Wakeups) -> None:
        ring = RingConsumer.create()
        self.producer = RingProducer(os.dup(ring.memory_fd()), os.dup(ring.notify_fd()))
        self.hub = Hub(wakeups, ring, self._ended, lambda _error: None)
        self.requests: dict[int, EndCallback] = {}

    @property
    def tokenizer(self) -> Tokenizer:
        raise NotImplementedError

    @property
    def attached(self) -> int:
        """Requests that the hub delivers to a log."""
        return self.hub._hub.attached

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        self.hub.close()

    def submit(
        self,
        request: int,
        prompt: list[int],
        params: SamplingParams,
        log: Log,
        on_ended: EndCallback,
        *,
        branch: int = 0,
        context: RequestContext = NO_CONTEXT,
    ) -> None:
        self.hub.attach(request, log, branch)
        self.requests[request] = on_ended

    def adapted(
        self, params: SamplingParams, prompt_tokens: int, quota_remaining: int
    ) -> SamplingParams:
        return shortened(params, prompt_tokens, quota_remaining)

    def abort(self, request: int) -> None:
        if self.requests.pop(request, None) is not None:
            self.hub.detach(request)

    async def stats(self) -> EngineStats | None:
        return None

    def token(self, request: int) -> None:
        """Write one token; `flush` shows it to the worker."""
        self.producer.write(request, Kind.TOKEN, "a", token_count=1, time_ns=1)

    def flush(self) -> None:
        """Show everything written."""
        while self.producer.flush():
            self.hub.drain()

    def _ended(self, request: int) -> None:
        on_ended = self.requests.pop(request, None)
        if on_ended is not None:
            self.hub.detach(request)
            on_ended(EngineEnd.ENDED)
