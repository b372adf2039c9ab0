"""Limits per client address around any ASGI app: two requests a second, and 429 beyond them.

granian --interface asgi examples.limits:app
curl -i http://127.0.0.1:8000/
"""

from __future__ import annotations

from fastapi import FastAPI

from millstream import Limits, MemoryLimiter, RequestRate
from millstream.middleware import LimitMiddleware, RequestIdMiddleware, client_address_scopes

app = FastAPI()
app.add_middleware(
    LimitMiddleware,
    limiter=MemoryLimiter(),
    scopes=client_address_scopes(Limits(requests=RequestRate(2, burst=2))),
)
app.add_middleware(RequestIdMiddleware)


@app.get("/")
async def hello() -> dict[str, str]:
    """Answer within the limits."""
    return {"hello": "world"}
