"""From the fields of a request for a response to sampling parameters."""

from __future__ import annotations

from typing import Any

from millstream.api.prompts import Prompt
from millstream.api.responses.schemas import ResponsesRequest
from millstream.api.sampling import prompt_too_long
from millstream.errors import ContextLengthExceeded
from millstream.types import SamplingParams

_SAME_NAMES = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "ignore_eos",
)


def sampling_params(
    body: ResponsesRequest,
    prompt: Prompt,
    *,
    prompt_tokens: int,
    context_length: int,
    max_tokens_cap: int | None,
) -> SamplingParams:
    """The parameters of this request with the defaults of OpenAI's API.

    Raises `ContextLengthExceeded` where input and output do not fit ``context_length`` (tokens of
    both together).
    """
    room = context_length - prompt_tokens
    if room < 1:
        raise prompt_too_long(prompt, f"{prompt_tokens} tokens", context_length)
    asked = body.max_output_tokens
    if asked is not None and asked > room:
        raise ContextLengthExceeded(
            f"max_output_tokens is {asked}; beside this input the model has room for {room} "
            "tokens.",
            param="max_output_tokens",
        )
    return SamplingParams(
        max_tokens=min(limit for limit in (asked, room, max_tokens_cap) if limit is not None),
        **_given(body),
    )


def _given(body: ResponsesRequest) -> dict[str, Any]:
    """What the request sets; the rest has OpenAI's defaults already."""
    given = {name: getattr(body, name) for name in _SAME_NAMES}
    if body.stop is not None:
        given["stop"] = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop)
    return {name: value for name, value in given.items() if value is not None}
