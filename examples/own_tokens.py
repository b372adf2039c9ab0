"""Your own FastAPI app streams its own tokens as OpenAI chunks, with Millstream as a library.

    granian --interface asgi examples.own_tokens:app
    curl -N 'http://127.0.0.1:8000/recite?text=Who+rides+so+late'

Several clients may follow one log, each with its own reader; here every request has its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request

from millstream import (
    Deliveries,
    Encoder,
    Kind,
    Log,
    Outcome,
    Reader,
    RequestIdMiddleware,
    StreamResponse,
    Sweeper,
    Wakeups,
)


class Recital:
    """Writes a text word by word; satisfies `millstream.StreamSource`."""

    def __init__(self, text: str) -> None:
        self.log = Log()
        self._task = asyncio.create_task(self._recite(text))

    @property
    def outcome(self) -> str | None:
        """How it ended."""
        return self.log.outcome

    def attach(self) -> None:
        """A client listens."""

    def detach(self) -> None:
        """It listens no more: nobody is left to recite for."""
        self._task.cancel()

    def mark_active(self) -> None:
        """The first word is on its way."""

    async def _recite(self, text: str) -> None:
        outcome = Outcome.UPSTREAM_ERROR
        try:
            for word in text.split():
                self.log.append(Kind.TOKEN, word + " ", token_count=1, time_ns=time.time_ns())
                await asyncio.sleep(0.05)
            self.log.append(Kind.FINISH, "stop", time_ns=time.time_ns())
            outcome = Outcome.COMPLETED
        except asyncio.CancelledError:
            outcome = Outcome.CLIENT_GONE
            raise
        finally:
            # Without this record a reader would wait for ever.
            self.log.close(outcome, time_ns=time.time_ns())


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One of each for a worker."""
    wakeups = Wakeups()
    app.state.deliveries = deliveries = Deliveries(wakeups.notifier)
    sweeper = Sweeper([deliveries])
    sweeper.start()
    yield
    sweeper.close()
    wakeups.close()


app = FastAPI(lifespan=lifespan)
app.add_middleware(RequestIdMiddleware)


@app.get("/recite")
async def recite(request: Request, text: str) -> StreamResponse:
    """Stream the words of ``text``."""
    recital = Recital(text)
    encoder = Encoder(
        dialect="chat", chunk_id="chatcmpl-1", model="reciter", created=int(time.time())
    )
    reader = Reader(recital.log, encoder)
    return StreamResponse(recital, reader, deliveries=request.app.state.deliveries)
