"""``GET /healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from millstream.api.services import services

router = APIRouter()


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The worker's loop turns."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request) -> JSONResponse:
    """200 while every engine takes requests and the worker is not on its way out, else 503."""
    parts = services(request)
    engines = {name: engine.ready for name, engine in parts.engines.items()}
    ready = all(engines.values()) and not parts.drain.begun
    content = {
        "status": "ready" if ready else "not_ready",
        "draining": parts.drain.begun,
        "engines": engines,
    }
    return JSONResponse(content, status_code=200 if ready else 503)


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Prometheus' text format, over all workers of this server."""
    parts = services(request)
    for name, engine in parts.engines.items():
        parts.metrics.observe_engine(name, await engine.stats())
    content, media_type = parts.metrics.render()
    return Response(content, media_type=media_type)
