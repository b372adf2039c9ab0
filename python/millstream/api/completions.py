"""``POST /v1/completions``."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from millstream.api.allowed import route
from millstream.api.body import read_json
from millstream.api.dialect import COMPLETION
from millstream.api.generation import answer
from millstream.api.prompts import text_prompt
from millstream.api.schemas import CompletionRequest
from millstream.api.scopes import requires
from millstream.api.services import services

router = APIRouter()


@router.post("/v1/completions", dependencies=[requires("chat:create"), route("completions")])
async def create_completion(request: Request) -> Response:
    """Continue a text or a list of token ids, streamed or whole."""
    parts = services(request)
    body = await read_json(
        request,
        CompletionRequest,
        max_bytes=parts.server.max_body_bytes,
        max_seconds=parts.server.body_seconds,
    )
    return await answer(request, body, text_prompt(body.prompt), dialect=COMPLETION, services=parts)
