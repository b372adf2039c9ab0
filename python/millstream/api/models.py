"""``GET /v1/models``."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request

from millstream.api.allowed import allowed_model, allowed_names, route
from millstream.api.scopes import requires
from millstream.api.services import services

router = APIRouter(dependencies=[requires("models:read"), route("models")])


@router.head("/v1/models", include_in_schema=False)
@router.get("/v1/models")
async def list_models(request: Request) -> dict[str, object]:
    """All names that this client may use."""
    parts = services(request)
    names = allowed_names(request, parts)
    return {"object": "list", "data": [_model_object(name, parts.started) for name in names]}


@router.head("/v1/models/{name:path}", include_in_schema=False)
@router.get("/v1/models/{name:path}")
async def retrieve_model(request: Request, name: str) -> dict[str, object]:
    """One of them; 404 if there is none of this name, 403 for one of other tenants."""
    parts = services(request)
    return _model_object(allowed_model(request, parts, name).name, parts.started)


def _model_object(name: str, created: int) -> dict[str, object]:
    return {"id": name, "object": "model", "created": created, "owned_by": "millstream"}
