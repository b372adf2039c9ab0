"""``GET /v1/models``."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request

from millstream.api.scopes import requires
from millstream.api.services import ServedModel, services

router = APIRouter(dependencies=[requires("models:read")])


@router.get("/v1/models")
async def list_models(request: Request) -> dict[str, object]:
    """All names that clients may use."""
    models = services(request).models.values()
    return {"object": "list", "data": [_model_object(model) for model in models]}


@router.get("/v1/models/{name:path}")
async def retrieve_model(request: Request, name: str) -> dict[str, object]:
    """One of them; 404 if there is none of this name."""
    return _model_object(services(request).model(name))


def _model_object(model: ServedModel) -> dict[str, object]:
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "millstream",
    }
