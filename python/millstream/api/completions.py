"""``POST /v1/completions``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from millstream.api.body import read_json
from millstream.api.dialect import COMPLETION
from millstream.api.generation import answer
from millstream.api.schemas import CompletionRequest
from millstream.api.services import services
from millstream.errors import InvalidParameter, UnsupportedParameter

if TYPE_CHECKING:
    from millstream.engines.base import Tokenizer

router = APIRouter()


@router.post("/v1/completions")
async def create_completion(request: Request) -> Response:
    """Continue a text or a list of token ids, streamed or whole."""
    parts = services(request)
    body = await read_json(
        request,
        CompletionRequest,
        max_bytes=parts.server.max_body_bytes,
        max_seconds=parts.server.body_seconds,
    )
    prompt = _prompt(body)
    return await answer(
        request,
        body,
        lambda tokenizer: _encode(tokenizer, prompt),
        prompt_characters=len(prompt) if isinstance(prompt, str) else 0,
        dialect=COMPLETION,
        services=parts,
    )


def _prompt(body: CompletionRequest) -> str | list[int]:
    prompt = body.prompt
    if isinstance(prompt, str) or isinstance(prompt[0], int):
        return prompt
    if len(prompt) > 1:
        raise UnsupportedParameter(
            f"prompt: {len(prompt)} prompts in one request are not supported, send one.",
            param="prompt",
        )
    return prompt[0]


def _encode(tokenizer: Tokenizer, prompt: str | list[int]) -> list[int]:
    if isinstance(prompt, str):
        ids = tokenizer.encode(prompt)
        if not ids:
            raise InvalidParameter("prompt: must not be empty.", param="prompt")
        return ids
    largest = max(prompt)
    if largest >= tokenizer.vocabulary_size:
        raise InvalidParameter(
            f"prompt: token id {largest} is not below {tokenizer.vocabulary_size}, the size of "
            "the vocabulary.",
            param="prompt",
        )
    return prompt
