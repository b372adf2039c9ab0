"""Our frames as independent clients read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import httpx2
import openai
import pytest
from openai._streaming import SSEDecoder

from millstream._core import Encoder
from millstream.types import Kind

TEXTS = ["Hello", ' "w\\orld"\n', "\r\n\u2028\x85", "漢🦀", "data: x\n\nid: 9"]
USAGE = {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}
KEEP_ALIVE = b":\n"
SWITCHES = [
    {"epoch": epoch, "metadata": metadata, "include_usage": usage}
    for epoch, metadata, usage in product((None, 3), (False, True), (False, True))
]


def stream(last: tuple[Kind, str] = (Kind.USAGE, json.dumps(USAGE)), end: str = "completed") -> Any:
    pairs = [
        *((Kind.TOKEN, text) for text in TEXTS),
        (Kind.FINISH, "stop"),
        last,
        (Kind.END, end),
    ]
    return [(seq, seq * 10**18, kind, 0, 1, text) for seq, (kind, text) in enumerate(pairs, 1)]


def frames(records: Any, **options: Any) -> bytes:
    """One frame at a time with a keep-alive before each, as a slow engine gives them."""
    encoder = Encoder(chunk_id="chatcmpl-1", model="m", created=7, **options)
    return b"".join(KEEP_ALIVE + encoder.encode([record]) for record in records)


class SlowBody(httpx2.SyncByteStream):
    """A response body that arrives in pieces of five bytes."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self.body), 5):
            yield self.body[start : start + 5]


def http_client(body: bytes) -> httpx2.Client:
    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=SlowBody(body))

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def openai_client(body: bytes) -> openai.OpenAI:
    return openai.OpenAI(
        api_key="k", base_url="http://test/v1", http_client=http_client(body), max_retries=0
    )


def chat(body: bytes) -> list[Any]:
    messages: Any = [{"role": "user", "content": "hi"}]
    with openai_client(body) as client:
        return list(client.chat.completions.create(model="m", messages=messages, stream=True))


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_openai_reads_chat_chunks(switches: dict[str, Any]) -> None:
    chunks = chat(frames(stream(), dialect="chat", **switches))
    if switches["include_usage"]:
        assert chunks.pop().usage.to_dict() == USAGE
    assert [chunk.choices[0].delta.content for chunk in chunks] == [*TEXTS, None]
    assert [chunk.choices[0].delta.role for chunk in chunks] == ["assistant"] + [None] * 5
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * 5 + ["stop"]
    if switches["metadata"]:
        assert [chunk.stream["seq"] for chunk in chunks] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_openai_reads_completion_chunks(switches: dict[str, Any]) -> None:
    body = frames(stream(), dialect="completion", **switches)
    with openai_client(body) as client:
        chunks = list(client.completions.create(model="m", prompt="hi", stream=True))
    if switches["include_usage"]:
        usage = chunks.pop().usage
        assert usage is not None
        assert usage.to_dict() == USAGE
    assert [chunk.choices[0].text for chunk in chunks] == [*TEXTS, ""]


@pytest.mark.parametrize("epoch", [None, 3])
def test_openai_raises_the_error_of_a_broken_stream(epoch: int | None) -> None:
    error = (Kind.ERROR, '{"message":"engine lost","type":"server_error","code":"engine_lost"}')
    body = frames(stream(error, end="engine_lost"), dialect="chat", epoch=epoch)
    with pytest.raises(openai.APIError, match="engine lost") as raised:
        chat(body)
    assert raised.value.code == "engine_lost"


@pytest.mark.parametrize(("dialect", "epoch"), list(product(["chat", "native"], [None, 3])))
def test_openais_decoder_sees_no_empty_event(dialect: str, epoch: int | None) -> None:
    body = frames(stream(), dialect=dialect, epoch=epoch)
    events = list(SSEDecoder().iter_bytes(iter([body])))
    assert all(event.data for event in events)
    assert events[-1].id == (f"3-{len(stream())}" if epoch else None)


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_httpx2_reads_native_events(switches: dict[str, Any]) -> None:
    with (
        http_client(frames(stream(), dialect="native", **switches)) as client,
        client.sse("http://test/") as source,
    ):
        events = list(source)
    assert [event.event for event in events] == ["token"] * 5 + ["finish", "usage", "done"]
    assert [json.loads(event.data)["text"] for event in events[:5]] == TEXTS
    if switches["epoch"]:
        assert [event.id for event in events] == [f"3-{seq}" for seq in range(1, 9)]
