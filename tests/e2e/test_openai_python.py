"""What openai-python sees of a real server with the real model."""

from __future__ import annotations

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.e2e.servers import MODEL

CAPITAL: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "What is the capital of France?"}
]


def test_a_whole_answer_is_true_and_counted(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=CAPITAL, temperature=0, max_tokens=24
    )
    message = answer.choices[0].message
    assert message.role == "assistant"
    assert "Paris" in (message.content or "")
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.object == "chat.completion"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.completion_tokens > 0


def test_streaming_gives_the_same_text_as_the_whole_answer(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(
        model=MODEL, messages=CAPITAL, temperature=0, max_tokens=24
    )
    stream = client.chat.completions.create(
        model=MODEL, messages=CAPITAL, temperature=0, max_tokens=24, stream=True
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    assert len({chunk.id for chunk in chunks}) == 1


def test_usage_is_one_chunk_without_choices_before_the_end(client: openai.OpenAI) -> None:
    # Portkey#1338, litellm#9657: exactly one, only when asked.
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=CAPITAL,
            max_tokens=4,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 4


def test_completions_stream_and_whole_agree(client: openai.OpenAI) -> None:
    whole = client.completions.create(
        model=MODEL, prompt="The capital of France is", temperature=0, max_tokens=8
    )
    stream = client.completions.create(
        model=MODEL, prompt="The capital of France is", temperature=0, max_tokens=8, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in stream) == whole.choices[0].text
    assert "Paris" in whole.choices[0].text
    assert whole.object == "text_completion"


def test_several_choices_come_under_their_own_index(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(
        model=MODEL, messages=CAPITAL, temperature=1.2, seed=3, n=3, max_tokens=12
    )
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    texts = [choice.message.content for choice in whole.choices]
    assert len(set(texts)) > 1
    streamed = ["", "", ""]
    for chunk in client.chat.completions.create(
        model=MODEL, messages=CAPITAL, temperature=1.2, seed=3, n=3, max_tokens=12, stream=True
    ):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == texts


def test_a_stop_string_ends_the_text_before_itself(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=CAPITAL, temperature=0, max_tokens=32, stop=["Paris"]
    )
    assert answer.choices[0].finish_reason == "stop"
    assert "Paris" not in (answer.choices[0].message.content or "")


def test_the_raw_response_carries_request_id_and_limits(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="two-a-minute",
        messages=CAPITAL,
        max_tokens=2,
        extra_headers={"X-Request-Id": "mine-1"},
    )
    assert raw.headers["x-request-id"] == "mine-1"
    assert raw.headers["x-ratelimit-limit-requests"] == "2"
    assert raw.headers["x-ratelimit-limit-tokens"] == "400"
    assert int(raw.headers["x-ratelimit-remaining-tokens"]) < 400
    assert raw.parse().choices[0].finish_reason == "length"


async def test_the_async_client_streams_several_at_once(async_client: openai.AsyncOpenAI) -> None:
    import asyncio

    async def text() -> str:
        stream = await async_client.chat.completions.create(
            model=MODEL, messages=CAPITAL, temperature=0, max_tokens=12, stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    texts = await asyncio.gather(*(text() for _ in range(6)))
    assert len(set(texts)) == 1
    assert "Paris" in texts[0]


async def test_the_async_client_gets_a_whole_answer(async_client: openai.AsyncOpenAI) -> None:
    answer = await async_client.chat.completions.create(
        model=MODEL, messages=CAPITAL, temperature=0, max_tokens=12
    )
    assert "Paris" in (answer.choices[0].message.content or "")


def test_models_are_listed_and_found(client: openai.OpenAI) -> None:
    assert MODEL in {model.id for model in client.models.list()}
    assert client.models.retrieve(MODEL).object == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nothing")


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="gpt-none", messages=CAPITAL)
    assert error.value.code == "model_not_found"
    assert error.value.param == "model"


def test_a_prompt_beyond_the_context_is_a_bad_request(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model=MODEL, prompt=[1] * 9000, max_tokens=1)
    assert error.value.code == "context_length_exceeded"


def test_a_wrong_type_names_its_field(client: openai.OpenAI) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as error:
        client.chat.completions.create(
            model=MODEL,
            messages=CAPITAL,
            temperature="hot",  # type: ignore[call-overload]
        )
    assert error.value.param == "temperature"


def test_tools_are_refused_by_name(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(
            model=MODEL,
            messages=CAPITAL,
            tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}],
        )
    assert error.value.param == "tools"


def test_metadata_is_carried_inside_the_chunks(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=CAPITAL,
            max_tokens=3,
            stream=True,
            extra_body={"stream_options": {"include_metadata": True}},
        )
    )
    seqs = [chunk.model_extra["stream"]["seq"] for chunk in chunks if chunk.model_extra]
    assert seqs == sorted(seqs)
    assert seqs[0] == 1
