"""From the fields of a request to sampling parameters."""

from __future__ import annotations

from millstream.api.prompts import Prompt
from millstream.api.schemas import BranchFields, ChatCompletionRequest, SamplingFields
from millstream.errors import ContextLengthExceeded, InvalidParameter
from millstream.types import SamplingParams

_HAVE_NEWER_NAME = (ChatCompletionRequest, BranchFields)
"""The bodies that know ``max_tokens`` also as ``max_completion_tokens``."""


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
    return SamplingParams(
        max_tokens=_max_tokens(body, room, max_tokens_cap),
        temperature=_or(body.temperature, 1.0),
        top_p=_or(body.top_p, 1.0),
        top_k=body.top_k or 0,
        min_p=_or(body.min_p, 0.0),
        seed=body.seed,
        presence_penalty=_or(body.presence_penalty, 0.0),
        frequency_penalty=_or(body.frequency_penalty, 0.0),
        repetition_penalty=_or(body.repetition_penalty, 1.0),
        stop=_stop(body),
        n=body.n or 1,
        ignore_eos=bool(body.ignore_eos),
    )


def prompt_too_long(prompt: Prompt, length: str, context_length: int) -> ContextLengthExceeded:
    """The refusal of a prompt of this length in words."""
    return ContextLengthExceeded(
        f"The prompt has {length}; this model takes at most {context_length} tokens for prompt "
        "and completion together.",
        param=prompt.field,
    )


def _max_tokens(body: SamplingFields, room: int, cap: int | None) -> int:
    asked, field = body.max_tokens, "max_tokens"
    newer = body.max_completion_tokens if isinstance(body, _HAVE_NEWER_NAME) else None
    if newer is not None:
        if asked is not None and asked != newer:
            raise InvalidParameter(
                "max_tokens and max_completion_tokens differ; send one of them.",
                param="max_completion_tokens",
            )
        asked, field = newer, "max_completion_tokens"
    if asked is not None and asked > room:
        raise ContextLengthExceeded(
            f"{field} is {asked}; beside this prompt the model has room for {room} tokens.",
            param=field,
        )
    return min(limit for limit in (asked, room, cap) if limit is not None)


def _stop(body: SamplingFields) -> tuple[str, ...]:
    if body.stop is None:
        return ()
    return (body.stop,) if isinstance(body.stop, str) else tuple(body.stop)


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
