"""The members of a Response object that are fixed from its beginning."""

from __future__ import annotations

import msgspec

from millstream.api.responses.ids import response_id
from millstream.api.responses.schemas import ResponsesRequest
from millstream.types import SamplingParams


def response_template(
    body: ResponsesRequest, params: SamplingParams, *, stream_id: str, created: int
) -> str:
    """The Response object as JSON, less what the stream decides.

    That is ``status``, ``output``, ``usage``, ``error`` and ``incomplete_details``. ``created`` is
    in Unix seconds.
    """
    members: dict[str, object] = {
        "id": response_id(stream_id),
        "object": "response",
        "created_at": created,
        "background": bool(body.background),
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "max_tool_calls": None,
        "metadata": body.metadata or {},
        "model": body.model,
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": None,
        "prompt_cache_key": body.prompt_cache_key,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": body.safety_identifier,
        "temperature": params.temperature,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": (body.model_extra or {}).get("tool_choice") or "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": params.top_p,
        "truncation": "disabled",
        "user": body.user,
    }
    return msgspec.json.encode(members).decode()
