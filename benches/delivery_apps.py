"""The two servers of ``bench_delivery``: the same tokens at the same pace, delivered two ways.

Both run under Granian with uvloop. A token's text is the monotonic time at which it was made, so
that the client can tell its delay.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic_ns, time_ns

from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse

from millstream._core import Log, Reader, RingConsumer, RingProducer
from millstream.admission import Admission, LimitBook, MemoryLimiter
from millstream.app import App
from millstream.config import StreamPolicy
from millstream.engines.base import NO_CONTEXT, Engine, RequestContext
from millstream.middleware.request_id import RequestIdMiddleware
from millstream.store.memory import MemoryStore
from millstream.streams.branch import Deadlines
from millstream.streams.deliveries import Deliveries
from millstream.streams.drain import Drain
from millstream.streams.encoding import encoder_for
from millstream.streams.hub import Hub, Wakeups
from millstream.streams.observer import Observers
from millstream.streams.orchestrator import BranchRequest, Generation, Orchestrator
from millstream.streams.registry import StreamRegistry
from millstream.streams.response import StreamResponse
from millstream.streams.stream import Stream
from millstream.types import Kind, SamplingParams

STREAMS = int(os.environ.get("BENCH_STREAMS", "400"))
TOKENS = int(os.environ.get("BENCH_TOKENS", "250"))
COALESCE_NS = int(os.environ.get("BENCH_COALESCE_MS", "0")) * 1_000_000
INTERVAL = 1 / float(os.environ.get("BENCH_RATE", "50"))


class Pace:
    """Calls ``step`` at the rate of the tokens once all streams are there, ``TOKENS`` times."""

    def __init__(self, step: object, finish: object) -> None:
        self._step, self._finish = step, finish
        self._left = TOKENS
        self._next = 0.0

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._next = loop.time() + 0.5
        loop.call_at(self._next, self._tick)

    def _tick(self) -> None:
        assert callable(self._step)
        assert callable(self._finish)
        if self._left == 0:
            self._finish()
            return
        self._left -= 1
        self._step()
        self._next += INTERVAL
        asyncio.get_running_loop().call_at(self._next, self._tick)


# --- Millstream: ring, hub, log, one take and one send a wake-up ---------------------------------


class PacedEngine:
    """An engine behind a real ring whose tokens come from a timer."""

    name = "paced"
    ready = True
    model_info = None

    def __init__(self, wakeups: Wakeups) -> None:
        ring = RingConsumer.create()
        memory, wake = os.dup(ring.memory_fd()), os.dup(ring.notify_fd())
        self._producer = RingProducer(memory, wake)
        self._callbacks: dict[int, object] = {}
        self._hub = Hub(wakeups, ring, self._ended, _fail)
        self._pace = Pace(self._step, self._finish)

    def submit(
        self,
        request: int,
        _prompt: list[int],
        _params: SamplingParams,
        log: Log,
        ended: object,
        *,
        branch: int = 0,
        context: RequestContext = NO_CONTEXT,
    ) -> None:
        self._callbacks[request] = ended
        self._hub.attach(request, log, branch)
        if len(self._callbacks) == STREAMS:
            self._pace.start()

    def abort(self, request: int) -> None:
        self._hub.detach(request)

    def _step(self) -> None:
        now, text = time_ns(), f" {monotonic_ns()} "
        for request in self._callbacks:
            self._producer.write(request, Kind.TOKEN, text, token_count=1, time_ns=now)
        self._producer.flush()

    def _finish(self) -> None:
        now = time_ns()
        for request in self._callbacks:
            self._producer.write(request, Kind.FINISH, "stop", time_ns=now)
            usage = '{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}'
            self._producer.write(request, Kind.USAGE, usage, time_ns=now)
        self._producer.flush()

    def _ended(self, request: int) -> None:
        from millstream.engines.base import EngineEnd

        ended = self._callbacks[request]
        assert callable(ended)
        ended(EngineEnd.ENDED)


def _fail(error: OSError) -> None:
    raise error


def _orchestrator() -> Orchestrator:
    registry = StreamRegistry()
    return Orchestrator(
        registry=registry,
        admission=Admission(MemoryLimiter(clock=monotonic_ns), LimitBook(), clock=monotonic_ns),
        drain=Drain(registry, seconds=1, shared=False, clock=monotonic_ns),
        observer=Observers(),
        store=MemoryStore(max_retained_bytes=1 << 20),
        clock=monotonic_ns,
        wall_clock=time_ns,
    )


def _generation(engine: Engine) -> Generation:
    branch = BranchRequest(
        model="paced",
        engine=engine,
        prompt=[1],
        params=SamplingParams(max_tokens=TOKENS),
        deadlines=Deadlines(),
    )
    return Generation(
        route="chat.completion",
        dialect="chat",
        id_prefix="chatcmpl-",
        branches=(branch,),
        streamed=True,
        policy=StreamPolicy(),
    )


def _millstream_app() -> FastAPI:
    orchestrator = _orchestrator()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        wakeups = Wakeups()
        app.state.engine = PacedEngine(wakeups)
        app.state.deliveries = Deliveries(
            wakeups.notifier, keep_alive_ns=None, blocked_send_ns=10**12, coalesce_ns=COALESCE_NS
        )
        yield

    app = App(lifespan=lifespan)

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        await request.body()
        stream = await orchestrator.open(_generation(request.app.state.engine))
        assert isinstance(stream, Stream)
        reader = Reader(stream.log, encoder_for(stream.descriptor))
        return StreamResponse(stream, reader, deliveries=request.app.state.deliveries)

    app.add_middleware(RequestIdMiddleware)
    return app


# --- the peer: an asyncio.Queue a stream, json.dumps a token, StreamingResponse ------------------


def _plain_app() -> FastAPI:
    queues: list[asyncio.Queue[str | None]] = []

    def step() -> None:
        text = f" {monotonic_ns()} "
        for queue in queues:
            queue.put_nowait(text)

    def finish() -> None:
        for queue in queues:
            queue.put_nowait(None)

    pace = Pace(step, finish)
    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        await request.body()
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        queues.append(queue)
        if len(queues) == STREAMS:
            pace.start()
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        return StreamingResponse(
            _frames(queue, f"chatcmpl-{len(queues)}"),
            media_type="text/event-stream",
            headers=headers,
        )

    return app


async def _frames(queue: asyncio.Queue[str | None], chunk_id: str) -> AsyncIterator[str]:
    created = time_ns() // 10**9
    while (text := await queue.get()) is not None:
        chunk = {
            "id": chunk_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": "paced",
            "choices": [
                {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None}
            ],
        }
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


app = _millstream_app() if os.environ.get("BENCH_APP") == "millstream" else _plain_app()
