"""Your own FastAPI app lets in who has an API key, and each tenant within limits of its own.

    millstream keys create --config examples/guarded.toml --tenant acme --role reader
    granian --interface asgi examples.guarded:app
    curl -i http://127.0.0.1:8000/notes -H 'Authorization: Bearer ms_…'

The same settings let in JSON Web Tokens (`auth.jwt`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request

from millstream import (
    Limits,
    MemoryLimiter,
    RequestRate,
    load_settings,
    open_authenticator,
    requires,
)
from millstream.middleware import (
    AuthenticationMiddleware,
    FailureMiddleware,
    LimitMiddleware,
    RequestIdMiddleware,
    state_of,
    tenant_scopes,
)

settings = load_settings(Path(__file__).with_suffix(".toml"))
authenticator = open_authenticator(lambda: settings)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    """The keys of tokens are fetched first, and let go at the end."""
    await authenticator.start()
    yield
    await authenticator.close()


app = FastAPI(lifespan=lifespan)
# The last one is the outermost.
app.add_middleware(FailureMiddleware)
app.add_middleware(
    LimitMiddleware,
    limiter=MemoryLimiter(),
    scopes=tenant_scopes(Limits(requests=RequestRate(2, burst=5))),
)
app.add_middleware(AuthenticationMiddleware, authenticator=authenticator)
app.add_middleware(RequestIdMiddleware)

notes: defaultdict[str, list[str]] = defaultdict(list)


@app.get("/notes", dependencies=[requires("notes:read")])
async def read_notes(request: Request) -> list[str]:
    """The notes of whoever asks."""
    return notes[state_of(request.scope)["tenant"]]


@app.put("/notes/{note}", dependencies=[requires("notes:write")])
async def add_note(request: Request, note: str) -> None:
    """One note more."""
    notes[state_of(request.scope)["tenant"]].append(note)
