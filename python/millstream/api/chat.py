"""``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from millstream.api.body import read_json
from millstream.api.dialect import CHAT
from millstream.api.generation import answer
from millstream.api.schemas import ChatCompletionRequest, Message, TextPart
from millstream.api.services import services
from millstream.errors import InvalidParameter, UnsupportedParameter

router = APIRouter()

# Newer clients say "developer" where the models' own templates know "system".
_TEMPLATE_ROLES = {"developer": "system"}
_IGNORED_OF_A_MESSAGE = frozenset({"name", "refusal"})
_IGNORED_OF_A_PART = frozenset({"cache_control"})


@router.post("/v1/chat/completions")
async def create_chat_completion(request: Request) -> Response:
    """Answer a conversation, streamed or whole."""
    parts = services(request)
    body = await read_json(
        request,
        ChatCompletionRequest,
        max_bytes=parts.server.max_body_bytes,
        max_seconds=parts.server.body_seconds,
    )
    messages = [_message(index, message) for index, message in enumerate(body.messages)]
    return await answer(
        request,
        body,
        lambda tokenizer: tokenizer.encode_chat(messages),
        prompt_characters=sum(len(text) for message in messages for text in message.values()),
        dialect=CHAT,
        services=parts,
    )


def _message(index: int, message: Message) -> dict[str, str]:
    where = f"messages[{index}]"
    _refuse_unknown(where, message.model_extra, _IGNORED_OF_A_MESSAGE)
    content = message.content
    if content is None:
        raise InvalidParameter(f"{where}.content: must be a text.", param=f"{where}.content")
    if not isinstance(content, str):
        content = "".join(_text(f"{where}.content[{i}]", part) for i, part in enumerate(content))
    return {"role": _TEMPLATE_ROLES.get(message.role, message.role), "content": content}


def _text(where: str, part: TextPart) -> str:
    if part.type != "text":
        raise UnsupportedParameter(
            f"{where}: parts of type '{part.type[:50]}' are not supported, only 'text'.",
            param=f"{where}.type",
        )
    _refuse_unknown(where, part.model_extra, _IGNORED_OF_A_PART)
    if part.text is None:
        raise InvalidParameter(f"{where}.text: must be a text.", param=f"{where}.text")
    return part.text


def _refuse_unknown(
    where: str, extra: Mapping[str, object] | None, ignored: frozenset[str]
) -> None:
    for name, value in (extra or {}).items():
        if value is not None and name not in ignored:
            path = f"{where}.{name[:200]}"
            raise UnsupportedParameter(f"'{path}' is not supported by this server.", param=path)
