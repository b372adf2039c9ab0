"""The servers of ``bench_resume``: one stream that many read, and that can be read again.

Each has ``GET /finished?after=N`` (a stream of ``BENCH_TOKENS`` tokens that is over) and
``GET /live`` (one that starts when ``BENCH_READERS`` are there). All run under Granian with
uvloop. A live token's text is the monotonic time at which it was made.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic_ns

from fastapi import FastAPI, Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response, StreamingResponse

from millstream._core import Encoder, Log, Reader
from millstream.app import App
from millstream.store.descriptor import BranchDescriptor, Descriptor
from millstream.store.recording import Recording
from millstream.streams.deliveries import Deliveries
from millstream.streams.hub import Wakeups
from millstream.streams.response import StreamResponse
from millstream.types import Kind, Outcome

READERS = int(os.environ.get("BENCH_READERS", "1000"))
TOKENS = int(os.environ.get("BENCH_TOKENS", "1000"))
LIVE_TOKENS = int(os.environ.get("BENCH_LIVE_TOKENS", "100"))
INTERVAL = 1 / float(os.environ.get("BENCH_RATE", "20"))
CREATED = 1_796_040_000
CHUNK_ID, MODEL = "chatcmpl-0123456789abcdef01234567", "smollm2-135m-instruct"


class Pace:
    """Calls ``step`` at the rate of the tokens, then ``finish``; starts with the last reader."""

    def __init__(self, step: object, finish: object) -> None:
        self._step, self._finish = step, finish
        self._readers = 0

    def joined(self) -> None:
        """One more reader is there."""
        self._readers += 1
        if self._readers == READERS:
            asyncio.get_running_loop().call_later(0.5, self._tick, LIVE_TOKENS)

    def _tick(self, left: int) -> None:
        assert callable(self._step)
        assert callable(self._finish)
        if left == 0:
            self._finish()
            return
        asyncio.get_running_loop().call_later(INTERVAL, self._tick, left - 1)
        self._step()


# --- Millstream: one log, a cursor a reader ------------------------------------------------------


def _recording() -> Recording:
    branch = BranchDescriptor(model=MODEL, chunk_id=CHUNK_ID)
    descriptor = Descriptor(
        id="s", route="chat.completion", dialect="chat", created=CREATED, branches=(branch,)
    )
    return Recording(descriptor, Log())


def _response(recording: Recording, deliveries: Deliveries, after: int) -> Response:
    encoder = Encoder(dialect="chat", chunk_id=CHUNK_ID, model=MODEL, created=CREATED, epoch=1)
    reader = Reader(recording.log, encoder, after=after)
    return StreamResponse(recording, reader, deliveries=deliveries)


def _millstream_app() -> FastAPI:
    finished, live = _recording(), _recording()
    for number in range(TOKENS):
        finished.log.append(Kind.TOKEN, f" token{number}", token_count=1, time_ns=1)
    finished.log.close(Outcome.COMPLETED, time_ns=1)

    def step() -> None:
        live.log.append(Kind.TOKEN, f" {monotonic_ns()} ", token_count=1, time_ns=1)

    def finish() -> None:
        live.log.close(Outcome.COMPLETED, time_ns=1)

    pace = Pace(step, finish)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        wakeups = Wakeups()
        app.state.deliveries = Deliveries(wakeups.notifier, keep_alive_ns=None)
        yield
        wakeups.close()

    app = App(lifespan=lifespan)

    @app.get("/finished")
    async def read_finished(request: Request, after: int = 0) -> Response:
        return _response(finished, request.app.state.deliveries, after)

    @app.get("/live")
    async def read_live(request: Request) -> Response:
        pace.joined()
        return _response(live, request.app.state.deliveries, 0)

    return app


# --- peers: a list of event objects kept a stream, an asyncio.Queue a reader ---------------------


Chunk = dict[str, object]


def _chunk(text: str) -> Chunk:
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None}
    return {
        "id": CHUNK_ID,
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": MODEL,
        "choices": [choice],
    }


def _plain(events: AsyncIterator[tuple[int, Chunk]]) -> Response:
    async def frames() -> AsyncIterator[str]:
        async for seq, chunk in events:
            yield f"id: 1-{seq}\ndata: {json.dumps(chunk)}\n\n"
        yield "data: [DONE]\n\n"

    return StreamingResponse(frames(), media_type="text/event-stream")


def _sse_starlette(events: AsyncIterator[tuple[int, Chunk]]) -> Response:
    async def frames() -> AsyncIterator[ServerSentEvent]:
        async for seq, chunk in events:
            yield ServerSentEvent(json.dumps(chunk), id=f"1-{seq}", sep="\n")
        yield ServerSentEvent("[DONE]", sep="\n")

    return EventSourceResponse(frames(), ping=3600, sep="\n")


async def _kept(chunks: list[Chunk], after: int) -> AsyncIterator[tuple[int, Chunk]]:
    for seq in range(after, len(chunks)):
        yield seq + 1, chunks[seq]


async def _followed(queue: asyncio.Queue[Chunk | None]) -> AsyncIterator[tuple[int, Chunk]]:
    for seq in itertools.count(1):
        chunk = await queue.get()
        if chunk is None:
            return
        yield seq, chunk


def _peer_app(respond: object) -> FastAPI:
    assert callable(respond)
    finished = [_chunk(f" token{number}") for number in range(TOKENS)]
    queues: list[asyncio.Queue[Chunk | None]] = []

    def step() -> None:
        chunk = _chunk(f" {monotonic_ns()} ")
        for queue in queues:
            queue.put_nowait(chunk)

    def finish() -> None:
        for queue in queues:
            queue.put_nowait(None)

    pace = Pace(step, finish)
    app = FastAPI()

    @app.get("/finished")
    async def read_finished(after: int = 0) -> Response:
        response: Response = respond(_kept(finished, after))
        return response

    @app.get("/live")
    async def read_live() -> Response:
        queue: asyncio.Queue[Chunk | None] = asyncio.Queue()
        queues.append(queue)
        pace.joined()
        response: Response = respond(_followed(queue))
        return response

    return app


def _app() -> FastAPI:
    match os.environ.get("BENCH_APP", "millstream"):
        case "millstream":
            return _millstream_app()
        case "plain":
            return _peer_app(_plain)
        case _:
            return _peer_app(_sse_starlette)


app = _app()
