"""From the fields of a request to sampling parameters."""

from __future__ import annotations

from typing import Any

from millstream.api.prompts import Prompt
from millstream.api.schemas import SamplingFields
from millstream.errors import ContextLengthExceeded, InvalidParameter
from millstream.types import SamplingParams

_MAXIMA = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""What OpenAI's APIs call the length of an answer, the newer name of each last."""

_SAME_NAMES = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "n",
    "ignore_eos",
)


def sampling_params(
    body: SamplingFields,
    prompt: Prompt,
    *,
    prompt_tokens: int,
    context_length: int,
    max_tokens_cap: int | None,
) -> SamplingParams:
    """The parameters of this request with the defaults of OpenAI's API.

    Raises `ContextLengthExceeded` where prompt and completion do not fit ``context_length``
    (tokens of both together).
    """
    room = context_length - prompt_tokens
    if room < 1:
        raise prompt_too_long(prompt, f"{prompt_tokens} tokens", context_length)
    return SamplingParams(max_tokens=_max_tokens(body, room, max_tokens_cap), **_given(body))


def prompt_too_long(prompt: Prompt, length: str, context_length: int) -> ContextLengthExceeded:
    """The refusal of a prompt of this length in words."""
    return ContextLengthExceeded(
        f"The prompt has {length}; this model takes at most {context_length} tokens for prompt "
        "and completion together.",
        param=prompt.field,
    )


def _max_tokens(body: SamplingFields, room: int, cap: int | None) -> int:
    asked: dict[str, int] = _set(body, _MAXIMA)
    if len(set(asked.values())) > 1:
        *_, newest = asked
        raise InvalidParameter(f"{' and '.join(asked)} differ; send one of them.", param=newest)
    for field, tokens in asked.items():
        if tokens > room:
            raise ContextLengthExceeded(
                f"{field} is {tokens}; beside this prompt the model has room for {room} tokens.",
                param=field,
            )
    return min(limit for limit in (*asked.values(), room, cap) if limit is not None)


def _given(body: SamplingFields) -> dict[str, Any]:
    """What the request sets; the rest has OpenAI's defaults already."""
    given = _set(body, _SAME_NAMES)
    if body.stop is not None:
        given["stop"] = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop)
    return given


def _set(body: SamplingFields, names: tuple[str, ...]) -> dict[str, Any]:
    """Those of these fields that the body has and sets."""
    fields = type(body).model_fields
    values = {name: getattr(body, name) for name in names if name in fields}
    return {name: value for name, value in values.items() if value is not None}
