"""Reading a body: what is wrong is named, at a cost that does not grow with how much is wrong."""

from __future__ import annotations

import asyncio
import json

import pytest
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.types import Message

from millstream.api.body import read_json
from millstream.api.errors import BodyRefused
from millstream.api.schemas import ChatCompletionRequest, CompletionRequest
from millstream.errors import InvalidParameter
from tests.unit.api.posted import JSON, posted

MANY = 1000

HELLO = {"role": "user", "content": "Hi"}


def completion(prompt: object) -> dict[str, object]:
    return {"model": "m", "prompt": prompt}


def chat(messages: object, **fields: object) -> dict[str, object]:
    return {"model": "m", "messages": messages, **fields}


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (CompletionRequest, completion([-1] * MANY)),
        (CompletionRequest, completion([1] * MANY + [-1] * MANY)),
        (CompletionRequest, completion([None] * MANY)),
        (ChatCompletionRequest, chat([{}] * MANY)),
        (ChatCompletionRequest, chat([{"role": "user", "content": [{}] * MANY}])),
        (ChatCompletionRequest, chat([HELLO], stop=[""] * MANY)),
    ],
)
def test_the_items_of_a_list_are_not_explained_one_by_one(
    model: type[BaseModel], fields: dict[str, object]
) -> None:
    # One request of 4 MiB held the loop for 43 s: a million errors, of which one was shown.
    with pytest.raises(ValidationError) as refused:
        model.model_validate_json(json.dumps(fields))
    assert refused.value.error_count() <= 3


@pytest.mark.parametrize(
    ("model", "fields", "param", "message"),
    [
        (CompletionRequest, completion([-1]), "prompt[0]", "greater than or equal to 0"),
        (CompletionRequest, completion([1, 2, "a"]), "prompt[2]", "valid integer"),
        (CompletionRequest, completion(["a", "b", 3]), "prompt[2]", "valid string"),
        (CompletionRequest, completion([]), "prompt", "at least 1 item"),
        (CompletionRequest, completion(5), "prompt", "valid string"),
        (CompletionRequest, completion([2**31]), "prompt[0]", "less than"),
        (ChatCompletionRequest, chat([HELLO, {**HELLO, "role": 5}]), "messages[1].role", "'user'"),
        (
            ChatCompletionRequest,
            chat([{"role": "user", "content": [{"type": "text"}, {"type": 5}]}]),
            "messages[0].content[1].type",
            "valid string",
        ),
        (ChatCompletionRequest, chat([HELLO], stop=["a"] * 17), "stop", "at most 16 items"),
    ],
)
async def test_the_first_wrong_item_is_named_with_what_is_wrong(
    model: type[BaseModel], fields: dict[str, object], param: str, message: str
) -> None:
    body = json.dumps(fields).encode()
    with pytest.raises(InvalidParameter, match=message) as refused:
        await read_json(posted(JSON, body), model, max_bytes=1 << 20, max_seconds=60)
    assert refused.value.param == param


async def test_a_body_is_whole_however_it_is_cut() -> None:
    body = json.dumps(completion("Grüße 🙂")).encode()
    pieces = [body[index : index + 1] for index in range(len(body))]
    read = await read_json(
        posted(JSON, *pieces), CompletionRequest, max_bytes=len(body), max_seconds=60
    )
    assert read.prompt == "Grüße 🙂"


def announcing(length: int) -> dict[str, str]:
    return {"content-length": str(length)}


@pytest.mark.parametrize("headers", [{}, announcing(300)])
async def test_a_body_that_is_too_large_is_read_to_its_end_before_it_is_refused(
    headers: dict[str, str],
) -> None:
    # Refused while the client still sends, the connection is reset and the 413 with it.
    sent = posted({**JSON, **headers}, *[b" " * 100] * 3)
    with pytest.raises(BodyRefused, match="larger than 100 bytes"):
        await read_json(sent, CompletionRequest, max_bytes=100, max_seconds=60)
    with pytest.raises(IndexError):
        await sent.receive()


@pytest.mark.parametrize(
    ("length", "headers"),
    [
        (500, announcing(500)),
        (150, {**announcing(150), "expect": "100-continue"}),
        (500, {}),
        (500, announcing(10**30)),
    ],
)
async def test_a_body_far_too_large_or_not_yet_sent_is_refused_before_its_end(
    length: int, headers: dict[str, str]
) -> None:
    sent = posted({**JSON, **headers}, *[b" " * 50] * (length // 50))
    with pytest.raises(BodyRefused) as refused:
        await read_json(sent, CompletionRequest, max_bytes=100, max_seconds=60)
    assert refused.value.status == 413
    assert (await sent.receive())["type"] == "http.request"


async def test_a_body_that_never_ends_is_given_up() -> None:
    async def receive() -> Message:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", b"application/json")]}
    with pytest.raises(BodyRefused) as refused:
        await read_json(Request(scope, receive), CompletionRequest, max_bytes=9, max_seconds=0.01)
    assert refused.value.status == 408
