"""One model's share of a request: its prompt in tokens, its parameters, its deadlines."""

from __future__ import annotations

import asyncio

from millstream.api.prompts import Prompt
from millstream.api.sampling import prompt_too_long, sampling_params
from millstream.api.schemas import SamplingFields
from millstream.api.services import ServedModel
from millstream.errors import EngineUnavailable
from millstream.streams.branch import Deadlines
from millstream.streams.orchestrator import BranchRequest

# Below this a prompt is tokenised in well under a millisecond; above it the loop must not wait.
INLINE_PROMPT_CHARACTERS = 4096


async def branch_request(
    served: ServedModel, fields: SamplingFields, prompt: Prompt
) -> BranchRequest:
    """What the engine of this model is asked for.

    Raises `RequestError` for what does not fit the model, `EngineUnavailable` while it is away.
    """
    context_length = context_length_of(served)
    tokens = await tokenise(served, prompt, context_length)
    params = sampling_params(
        fields,
        prompt,
        prompt_tokens=len(tokens),
        context_length=context_length,
        max_tokens_cap=served.settings.max_tokens,
    )
    return BranchRequest(
        model=served.name,
        engine=served.engine,
        prompt=tokens,
        params=params,
        deadlines=deadlines_of(served),
    )


async def tokenise(served: ServedModel, prompt: Prompt, context_length: int) -> list[int]:
    """The prompt in tokens of this model; raises `RequestError`."""
    tokenizer = served.engine.tokenizer
    if prompt.characters <= INLINE_PROMPT_CHARACTERS:
        return prompt.encode(tokenizer)

    def encode_if_it_can_fit() -> list[int]:
        # Megabytes that cannot fit would cost seconds and hundreds of megabytes to count.
        if prompt.characters > context_length * tokenizer.longest_token:
            raise prompt_too_long(prompt, f"{prompt.characters} characters", context_length)
        return prompt.encode(tokenizer)

    return await asyncio.to_thread(encode_if_it_can_fit)


def context_length_of(served: ServedModel) -> int:
    """How many tokens a sequence may have; raises `EngineUnavailable` while nobody knows."""
    info = served.engine.model_info
    if info is None or not served.engine.ready:
        raise EngineUnavailable(f"The engine of model '{served.name}' is not ready.")
    return min(info.context_length, info.cache_tokens)


def deadlines_of(served: ServedModel) -> Deadlines:
    """How long a request to this model may take, for its tenant."""
    timeouts = served.timeouts
    return Deadlines(
        first_token_ns=_nanoseconds(timeouts.first_token_seconds),
        idle_ns=_nanoseconds(timeouts.idle_seconds),
        total_ns=_nanoseconds(timeouts.total_seconds),
    )


def _nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1e9)
