"""``POST /v1/chat/completions``."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from millstream.api.allowed import route
from millstream.api.body import read_json
from millstream.api.dialect import CHAT
from millstream.api.generation import answer
from millstream.api.prompts import chat_prompt
from millstream.api.schemas import ChatCompletionRequest
from millstream.api.scopes import requires
from millstream.api.services import services

router = APIRouter()


@router.post("/v1/chat/completions", dependencies=[requires("chat:create"), route("chat")])
async def create_chat_completion(request: Request) -> Response:
    """Answer a conversation, streamed or whole."""
    parts = services(request)
    body = await read_json(
        request,
        ChatCompletionRequest,
        max_bytes=parts.server.max_body_bytes,
        max_seconds=parts.server.body_seconds,
    )
    return await answer(request, body, chat_prompt(body.messages), dialect=CHAT, services=parts)
