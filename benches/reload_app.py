"""The server of ``bench_reload``: the whole app, with an engine that gives a token every 5 ms."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse

from millstream._core import Log
from millstream.assembly import engines
from millstream.engines.base import NO_CONTEXT, EndCallback, RequestContext
from millstream.types import SamplingParams
from tests.unit.scripted_engine import ScriptedEngine

INTERVAL = 0.005
LOOK = 0.001
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


class Lateness:
    """How late the loop comes to what is due, at worst: for how long something has held it."""

    def __init__(self) -> None:
        self._longest = self._worked = self._cpu = 0.0

    def begin(self) -> None:
        """Look from now on."""
        self._look(asyncio.get_running_loop(), time.perf_counter())

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now, cpu = time.perf_counter(), time.process_time()
        if now - due > self._longest:
            self._longest, self._worked = now - due, cpu - self._cpu
        self._cpu = cpu
        loop.call_later(LOOK, self._look, loop, now + LOOK)

    async def answer(self, _: Request) -> JSONResponse:
        """Seconds at worst since the last answer, and how many of them this process has worked."""
        longest, self._longest = self._longest, 0.0
        return JSONResponse([longest, self._worked])


def _app() -> FastAPI:
    """The server's own, as `millstream serve` has it, but for the engine."""
    setattr(engines, "TorchEngine", _paced)  # noqa: B010 - it stands in for a class
    from millstream.asgi import app

    lateness = Lateness()
    app.add_route("/held", lateness.answer)
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(within: FastAPI) -> AsyncIterator[None]:
        async with inner(within):
            lateness.begin()
            yield

    app.router.lifespan_context = lifespan
    return app


app = _app()
