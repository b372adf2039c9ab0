"""From input and instructions to messages."""

from __future__ import annotations

import pytest

from millstream.api.responses.messages import messages_of
from millstream.errors import InvalidParameter, UnsupportedParameter
from tests.unit.api.responses.requests import request


def test_a_text_is_what_the_user_says() -> None:
    assert messages_of(request(input="Hello")) == [{"role": "user", "content": "Hello"}]


def test_instructions_come_first_as_the_system_speaking() -> None:
    assert messages_of(request(input="Hello", instructions="Be brief.")) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
    ]


def test_items_keep_their_order_and_developers_speak_for_the_system() -> None:
    items = [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "system", "content": "Go on."},
    ]
    assert [message["role"] for message in messages_of(request(input=items))] == [
        "system",
        "user",
        "assistant",
        "system",
    ]


def test_an_output_item_can_be_sent_back_as_it_came() -> None:
    item = {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [
            {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []},
            {"type": "output_text", "text": " there", "annotations": [], "logprobs": []},
        ],
    }
    assert messages_of(request(input=[item])) == [{"role": "assistant", "content": "Hi there"}]


def test_parts_of_a_text_are_joined() -> None:
    parts = [{"type": "input_text", "text": "One "}, {"type": "input_text", "text": "two"}]
    (message,) = messages_of(request(input=[{"role": "user", "content": parts}]))
    assert message["content"] == "One two"


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "function_call_output", "call_id": "c", "output": "1"}, "input[0].type"),
        ({"type": "item_reference", "id": "msg_1"}, "input[0].type"),
        ({"role": "user", "content": [{"type": "input_image"}]}, "input[0].content[0].type"),
        ({"role": "user", "content": [{"type": "text", "text": "x"}]}, "input[0].content[0].type"),
        ({"role": "user", "content": "x", "name": "ann"}, "input[0].name"),
        (
            {"role": "user", "content": [{"type": "input_text", "text": "x", "detail": "low"}]},
            "input[0].content[0].detail",
        ),
    ],
)
def test_what_is_no_text_is_refused_by_its_path(item: dict[str, object], param: str) -> None:
    with pytest.raises(UnsupportedParameter) as refused:
        messages_of(request(input=[item]))
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"content": "x"}, "input[0].role"),
        ({"role": "tool", "content": "x"}, "input[0].role"),
        ({"role": "user"}, "input[0].content"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "input[0].content[0].text"),
    ],
)
def test_what_is_malformed_is_named_by_its_path(item: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        messages_of(request(input=[item]))
    assert refused.value.param == param
