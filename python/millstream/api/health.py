"""``GET /healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from millstream.api.scopes import requires
from millstream.api.services import services

if TYPE_CHECKING:
    from millstream.engines.base import Engine, EngineStats
    from millstream.telemetry.metrics import Metrics

router = APIRouter()

_READS = [requires("metrics:read")]

HUNG_STEP_NS = 30_000_000_000
"""Age at which a step is taken for one that will not end."""


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The worker's loop turns."""
    return {"status": "ok"}


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz")
async def readyz(request: Request) -> JSONResponse:
    """200 while every engine works and the worker is not on its way out, else 503."""
    parts = services(request)
    engines = {name: await _works(engine) for name, engine in parts.engines.items()}
    ready = all(engines.values()) and not parts.drain.begun
    content = {
        "status": "ready" if ready else "not_ready",
        "draining": parts.drain.begun,
        "engines": engines,
    }
    return JSONResponse(content, status_code=200 if ready else 503)


async def _works(engine: Engine) -> bool:
    """Whether the engine takes requests and gets on with them.

    A process that lives may still hang, in a step or altogether (vLLM#42897): what counts is that
    it answers, and the age of the step that it is in.
    """
    stats = await engine.stats() if engine.ready else None
    return stats is not None and not (stats.running and stats.idle_ns > HUNG_STEP_NS)


@router.head("/metrics", include_in_schema=False, dependencies=_READS)
@router.get("/metrics", dependencies=_READS)
async def metrics(request: Request) -> Response:
    """Prometheus' text format, over all workers of this server."""
    parts = services(request)
    for name, engine in parts.engines.items():
        _observe(parts.metrics, name, await engine.stats())
    content, media_type = parts.metrics.render()
    return Response(content, media_type=media_type)


def _observe(metrics: Metrics, name: str, stats: EngineStats | None) -> None:
    metrics.engine(
        name,
        running=stats.running if stats else 0,
        waiting=stats.waiting if stats else 0,
        pages_used=stats.pages_used if stats else 0,
        pages_total=stats.pages_total if stats else 0,
    )
