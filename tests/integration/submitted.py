"""A request on an engine, followed as a worker follows it: hub, log, reader."""

from __future__ import annotations

import asyncio
import json
from functools import partial

from millstream._core import Encoder, Log, Reader
from millstream.engines.base import EngineEnd
from millstream.engines.torch.client import TorchEngine
from millstream.engines.torch.options import EngineOptions
from millstream.engines.torch.runtime import RuntimeDirectory
from millstream.streams.hub import Hub, Wakeups
from millstream.types import Kind, SamplingParams
from tests.reference.records import Answer, Taken
from tests.waiting import until_true


def torch_engine(
    directory: RuntimeDirectory, options: EngineOptions, *, idle_exit_seconds: float = 120
) -> TorchEngine:
    """An engine as `millstream.app` makes it, at a place of the test's own."""
    hub = partial(Hub, Wakeups())
    return TorchEngine(
        "local", options, hub=hub, directory=directory, idle_exit_seconds=idle_exit_seconds
    )


async def ready(engine: TorchEngine) -> None:
    """Return when the engine is ready, however long that takes."""
    await until_true(lambda: engine.ready)


class Submitted:
    """One submitted request; greedy and endless unless ``params`` say otherwise."""

    def __init__(
        self, engine: TorchEngine, request: int, prompt: list[int], **params: object
    ) -> None:
        params = {"temperature": 0.0, "ignore_eos": True, "seed": 0, **params}
        self.log = Log()
        self.end: asyncio.Future[EngineEnd] = asyncio.get_running_loop().create_future()
        self._records: list[Taken] = []
        self._reader = Reader(
            self.log,
            Encoder(
                dialect="native",
                framing="ndjson",
                chunk_id="c",
                model="m",
                created=0,
                metadata=True,
            ),
        )
        sampling = SamplingParams(**params)  # type: ignore[arg-type]
        engine.submit(request, prompt, sampling, self.log, self.end.set_result)

    @property
    def records(self) -> list[Taken]:
        """What has come so far."""
        while lines := self._reader.take():
            self._records += map(_record, lines.splitlines())
        return self._records

    async def answer(self) -> Answer:
        """The whole of it, in an order that is allowed."""
        assert await self.end is EngineEnd.ENDED
        answer = Answer(self.records)
        answer.check()
        return answer


def _record(line: bytes) -> Taken:
    frame = json.loads(line)
    kind = Kind[frame["event"].upper()]
    payload = frame[_PAYLOADS[kind]]
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return Taken(0, 0, kind, frame.get("choice", 0), frame["stream"]["token_count"], text)


_PAYLOADS = {
    Kind.TOKEN: "text",
    Kind.FINISH: "finish_reason",
    Kind.USAGE: "usage",
    Kind.ERROR: "error",
}
