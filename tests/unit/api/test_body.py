"""Reading a body: what is wrong is named, at a cost that does not grow with how much is wrong."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, ValidationError

from millstream.api.body import read_json
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
        await read_json(posted(JSON, body), model, max_bytes=1 << 20)
    assert refused.value.param == param


async def test_a_body_is_whole_however_it_is_cut() -> None:
    body = json.dumps(completion("Grüße 🙂")).encode()
    pieces = [body[index : index + 1] for index in range(len(body))]
    read = await read_json(posted(JSON, *pieces), CompletionRequest, max_bytes=len(body))
    assert read.prompt == "Grüße 🙂"
