"""``GET /admin/config``: what is in force in the worker that answers."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from millstream.api.scopes import requires
from millstream.api.services import services
from millstream.config.secrets import hidden
from millstream.telemetry.timestamps import rfc3339

router = APIRouter()


@router.get("/admin/config", dependencies=[requires("admin:config")])
async def show_config(request: Request) -> JSONResponse:
    """The settings without their secrets, since when, and what was wrong with newer ones."""
    live = services(request).live
    content = {
        "revision": live.revision,
        "loaded_at": rfc3339(live.loaded_at),
        "source": live.source,
        "last_error": live.last_error,
        "restart_needed": live.restart_needed,
        "settings": hidden(live.current.model_dump(mode="json")),
    }
    return JSONResponse(content, headers={"cache-control": "no-store"})
