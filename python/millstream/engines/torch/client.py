"""The torch engine as a worker sees it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from millstream.engines.base import (
    NO_CONTEXT,
    EndCallback,
    EngineEnd,
    EngineStats,
    Hub,
    HubFactory,
    ModelInfo,
    RequestContext,
    shortened,
)
from millstream.engines.torch.options import EngineOptions
from millstream.engines.torch.protocol import Abort, Submit, Welcome
from millstream.engines.torch.runtime import RuntimeDirectory, runtime_directory
from millstream.engines.torch.supervisor import Supervisor
from millstream.errors import EngineUnavailable
from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from millstream._core import Log
    from millstream.engines.torch.link import Link
    from millstream.engines.torch.tokenizer import Tokenizer
    from millstream.types import SamplingParams

_log = get_logger(__name__)


class _Up(NamedTuple):
    link: Link
    welcome: Welcome
    hub: Hub


class TorchEngine:
    """One torch engine process, shared with every other worker that has the same options.

    Lives on one event loop. ``hub`` makes the worker's end of the ring for each connection.
    """

    def __init__(
        self,
        name: str,
        options: EngineOptions,
        *,
        hub: HubFactory,
        directory: RuntimeDirectory | None = None,
        idle_exit_seconds: float = 15.0,
    ) -> None:
        self.name = name
        self.options = options
        self.model_info: ModelInfo | None = None
        self._hub_factory = hub
        self._streams: dict[int, EndCallback] = {}
        self._up: _Up | None = None
        self._task: asyncio.Task[None] | None = None
        self._supervisor = Supervisor(
            directory or runtime_directory(options),
            options,
            idle_exit_seconds=idle_exit_seconds,
            on_up=self._connected,
            on_lost=self._lost,
        )

    @property
    def ready(self) -> bool:
        """Whether `submit` can be called."""
        return self._up is not None

    @property
    def fault(self) -> str | None:
        """Why the engine is not ready, with the end of its log if it failed to start."""
        return None if self.ready else self._supervisor.fault

    @property
    def pid(self) -> int | None:
        """The engine process that this worker is connected to."""
        return self._up.welcome.pid if self._up else None

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, loaded on first use; `start` does so in the background."""
        from millstream.engines.torch.models import resolve_model
        from millstream.engines.torch.tokenizer import Tokenizer

        return Tokenizer.load(resolve_model(self.options.model).path)

    async def start(self) -> None:
        """Reach the engine in the background, and again whenever it is lost, until `close`.

        Returns once the tokenizer is loaded; raises `ConfigError` if the model is not there.
        """
        self._task = asyncio.create_task(self._supervisor.run(), name=f"engine {self.name}")
        try:
            await asyncio.to_thread(getattr, self, "tokenizer")
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Let go of the engine, which goes on for other workers; open streams end as lost."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        if self._up is not None:
            link = self._up.link
            self._lost(link)
            await link.close()

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
        """Generate into a branch of ``log``; ``on_ended`` is called once, or never after `abort`.

        ``request`` must be new on this engine. Raises `EngineUnavailable`.
        """
        if request in self._streams:
            raise ValueError(f"request {request} is already open")
        up = self._up
        if up is None:
            raise EngineUnavailable(self.fault or "the engine is starting")
        up.hub.attach(request, log, branch)
        self._streams[request] = on_ended
        sent = False
        try:
            sent = up.link.send(Submit(request, prompt, params, context.flow_id))
        finally:
            if not sent:
                self._streams.pop(request, None)
                up.hub.detach(request)
        if not sent:
            raise EngineUnavailable("the engine process has ended")

    def adapted(
        self, params: SamplingParams, prompt_tokens: int, quota_remaining: int
    ) -> SamplingParams:
        """The same with fewer tokens."""
        return shortened(params, prompt_tokens, quota_remaining)

    def abort(self, request: int) -> None:
        """Stop; afterwards nothing is appended and ``on_ended`` is not called. Idempotent."""
        if self._streams.pop(request, None) is not None and self._up is not None:
            self._up.hub.detach(request)
            self._up.link.send(Abort(request))

    async def stats(self, timeout_seconds: float = 1.0) -> EngineStats | None:
        """The scheduler at this moment, or None if the engine does not answer in time."""
        return await self._up.link.stats(timeout_seconds) if self._up else None

    def _connected(self, link: Link, welcome: Welcome) -> None:
        self.model_info = ModelInfo(
            model=welcome.model,
            context_length=welcome.context_length,
            cache_tokens=welcome.cache_tokens,
            max_batch=welcome.max_batch,
        )
        self._up = _Up(
            link,
            welcome,
            # A ring that breaks the protocol is a lost engine: close, and what follows is the same.
            self._hub_factory(link.ring, self._ended, lambda _: link.connection.close()),
        )

    def _ended(self, request: int) -> None:
        on_ended = self._streams.pop(request, None)
        if on_ended is not None and self._up is not None:
            self._up.hub.detach(request)
            self._tell(on_ended, EngineEnd.ENDED)

    def _lost(self, link: Link) -> None:
        up = self._up
        if up is None or up.link is not link:
            return
        # What the engine wrote before it died is still delivered, then no more.
        up.hub.drain()
        self._up = None
        up.hub.close()
        streams, self._streams = self._streams, {}
        for on_ended in streams.values():
            self._tell(on_ended, EngineEnd.LOST)

    @staticmethod
    def _tell(on_ended: EndCallback, end: EngineEnd) -> None:
        try:
            on_ended(end)
        except Exception as error:
            _log.error("stream_not_told", error=error, end=end)
