"""An engine without a model in the test's own process, behind a real socket and real rings."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

from millstream._core import Emitter, Vocabulary
from millstream.engines.torch.client import TorchEngine
from millstream.engines.torch.loop import StepLoop
from millstream.engines.torch.options import EngineOptions
from millstream.engines.torch.outlet import Outlet
from millstream.engines.torch.pages import PagePool
from millstream.engines.torch.process import listen
from millstream.engines.torch.protocol import (
    PROTOCOL_VERSION,
    Welcome,
)
from millstream.engines.torch.runtime import RuntimeDirectory
from millstream.engines.torch.scheduler import Scheduler
from millstream.engines.torch.server import Server
from tests.integration.submitted import ready, torch_engine
from tests.reference.runner import PagedRunner
from tests.waiting import until_true

TOKENS = [b"%d " % number for number in range(200)]


class GatedRunner(PagedRunner):
    """Runs no step before it is let."""

    def __init__(self) -> None:
        super().__init__(64, page_size=4, max_batch=4, vocabulary=len(TOKENS))
        self.gate = threading.Semaphore(0)
        self.open = False

    def step(self, batch):  # type: ignore[no-untyped-def]
        while not self.open and not self.gate.acquire(timeout=0.05):
            pass
        return super().step(batch)

    def let(self, steps: int | None = None) -> None:
        """Let ``steps`` run, or all from now on."""
        self.open = steps is None
        self.gate.release(steps or 1)


def step_loop(runner: PagedRunner) -> StepLoop:
    scheduler = Scheduler(
        PagePool(runner.num_pages, runner.page_size),
        runner,
        max_batch=runner.max_batch,
        max_step_tokens=16,
        context_length=100,
        expected_output=8,
    )
    outlet = Outlet(Emitter(Vocabulary(TOKENS, [])))
    return StepLoop(scheduler, runner, outlet, vocabulary_size=len(TOKENS), eos_ids=frozenset())


class Stand:
    """An engine in this process, at a place where a client finds it."""

    def __init__(self, path: Path, *, idle_exit_seconds: float = 60) -> None:
        self.directory = RuntimeDirectory(path)
        self.directory.prepare()
        self.runner = GatedRunner()
        self.loop = step_loop(self.runner)
        self.server = Server(listen(self.directory.socket), idle_exit_seconds=idle_exit_seconds)
        self.serving = asyncio.create_task(self.server.serve())
        self.thread = threading.Thread(target=self.loop.run)
        self.thread.start()
        self.engines: list[TorchEngine] = []

    def loaded(self) -> None:
        welcome = Welcome(PROTOCOL_VERSION, os.getpid(), "twin", 100, 256, 4)
        self.server.loaded.set_result((self.loop, welcome))

    async def engine(self) -> TorchEngine:
        engine = await self.started()
        await ready(engine)
        return engine

    async def started(self) -> TorchEngine:
        """An engine that looks for this one."""
        engine = torch_engine(self.directory, EngineOptions(model="twin"))
        engine.__dict__["tokenizer"] = None  # the twin has none
        self.engines.append(engine)
        await engine.start()
        return engine

    async def settled(self, **expected: int) -> None:
        """Return when the snapshot says so."""
        await until_true(
            lambda: all(getattr(self.loop.snapshot, key) == n for key, n in expected.items())
        )

    async def close(self) -> None:
        for engine in self.engines:
            await engine.close()
        self.server.stop()
        await self.serving
        self.runner.let()
        self.loop.stop()
        await asyncio.to_thread(self.thread.join)
