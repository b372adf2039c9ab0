"""Sampling parameters of a response."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.api.responses.sampling import sampling_params
from millstream.errors import ContextLengthExceeded
from millstream.types import SamplingParams
from tests.unit.api.responses.requests import PROMPT, request


def sampled(prompt_tokens: int = 10, cap: int | None = None, **members: object) -> SamplingParams:
    return sampling_params(
        request(**members),
        PROMPT,
        prompt_tokens=prompt_tokens,
        context_length=64,
        max_tokens_cap=cap,
    )


def test_defaults_are_those_of_openai() -> None:
    assert sampled() == SamplingParams(max_tokens=54, temperature=1.0, top_p=1.0)


def test_what_is_given_is_taken() -> None:
    given: dict[str, Any] = {
        "temperature": 0,
        "top_p": 0.5,
        "top_k": 3,
        "min_p": 0.1,
        "seed": 7,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "repetition_penalty": 1.1,
        "ignore_eos": True,
    }
    assert sampled(max_output_tokens=5, stop=["a", "b"], **given) == SamplingParams(
        max_tokens=5,
        stop=("a", "b"),
        **given,
    )


def test_one_stop_string_is_not_taken_for_its_letters() -> None:
    assert sampled(stop="end").stop == ("end",)


def test_the_cap_of_the_model_goes_before_what_is_asked() -> None:
    assert sampled(max_output_tokens=20, cap=8).max_tokens == 8
    assert sampled(cap=8).max_tokens == 8


def test_more_than_the_context_has_room_for_is_refused() -> None:
    with pytest.raises(ContextLengthExceeded) as refused:
        sampled(max_output_tokens=55)
    assert refused.value.param == "max_output_tokens"


def test_an_input_without_room_for_an_answer_is_refused() -> None:
    with pytest.raises(ContextLengthExceeded) as refused:
        sampled(prompt_tokens=64)
    assert refused.value.param == "input"
