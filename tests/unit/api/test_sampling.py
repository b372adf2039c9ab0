"""Defaults, caps and room."""

from __future__ import annotations

import pytest

from millstream.api.prompts import chat_prompt
from millstream.api.sampling import sampling_params
from millstream.api.schemas import ChatCompletionRequest
from millstream.errors import ContextLengthExceeded, InvalidParameter
from millstream.types import SamplingParams


def body(**fields: object) -> ChatCompletionRequest:
    messages = [{"role": "user", "content": "Hi"}]
    return ChatCompletionRequest.model_validate({"model": "m", "messages": messages, **fields})


def params(
    request: ChatCompletionRequest, *, prompt: int = 10, cap: int | None = 50
) -> SamplingParams:
    return sampling_params(
        request,
        chat_prompt(request.messages),
        prompt_tokens=prompt,
        context_length=100,
        max_tokens_cap=cap,
    )


def test_the_defaults_are_openais() -> None:
    assert params(body()) == SamplingParams(max_tokens=50)


def test_zero_temperature_and_every_field_arrive() -> None:
    sent = params(
        body(temperature=0, top_p=0.5, top_k=3, min_p=0.1, seed=7, presence_penalty=-1,
             frequency_penalty=2, repetition_penalty=1.5, stop="x", n=2, max_tokens=4)
    )  # fmt: skip
    assert sent == SamplingParams(
        max_tokens=4, temperature=0, top_p=0.5, top_k=3, min_p=0.1, seed=7, presence_penalty=-1,
        frequency_penalty=2, repetition_penalty=1.5, stop=("x",), n=2,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "prompt", "cap", "granted"),
    [
        (None, 10, 50, 50),
        (None, 60, 50, 40),
        (None, 10, None, 90),
        (90, 10, 50, 50),
        (1, 99, 50, 1),
    ],
)
def test_max_tokens_is_what_was_asked_within_cap_and_room(
    asked: int | None, prompt: int, cap: int | None, granted: int
) -> None:
    assert params(body(max_tokens=asked), prompt=prompt, cap=cap).max_tokens == granted


def test_more_than_the_room_names_field_and_room() -> None:
    with pytest.raises(ContextLengthExceeded, match=r"max_completion_tokens is 91.*90") as refused:
        params(body(max_completion_tokens=91))
    assert refused.value.param == "max_completion_tokens"


def test_a_prompt_that_fills_the_context_names_both_lengths() -> None:
    with pytest.raises(ContextLengthExceeded, match=r"100 tokens.*at most 100") as refused:
        params(body(), prompt=100)
    assert refused.value.param == "messages"


def test_two_different_maxima_are_refused() -> None:
    with pytest.raises(InvalidParameter):
        params(body(max_tokens=1, max_completion_tokens=2))
    assert params(body(max_tokens=2, max_completion_tokens=2)).max_tokens == 2
