"""The server of ``bench_reload``: the whole app, with an engine that gives a token every 5 ms."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from millstream._core import Log
from millstream.app import create_app
from millstream.assembly import engines
from millstream.config import load
from millstream.engines.base import NO_CONTEXT, EndCallback, RequestContext
from millstream.types import SamplingParams
from tests.unit.scripted_engine import ScriptedEngine

INTERVAL = 0.005
TEXT = " token"


@dataclass
class PacedEngine(ScriptedEngine):
    """Goes on until the client leaves, at one rate whatever the loop does meanwhile."""

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
        """Begin to generate."""
        self.logs[request], self.callbacks[request] = log, on_ended
        self.branches[request] = branch
        loop = asyncio.get_running_loop()
        self._tick(request, loop, loop.time())

    def _tick(self, request: int, loop: asyncio.AbstractEventLoop, due: float) -> None:
        if request in self.callbacks:
            self.token(request, TEXT)
            loop.call_at(due + INTERVAL, self._tick, request, loop, due + INTERVAL)


def _paced(*_: Any, **__: Any) -> PacedEngine:
    return PacedEngine()


setattr(engines, "TorchEngine", _paced)  # noqa: B010 - it stands in for a class
app = create_app(load())
