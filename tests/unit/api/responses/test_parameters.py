"""Served, ignored, refused by name."""

from __future__ import annotations

import pytest

from millstream.api.responses.parameters import (
    HARMLESS,
    NEUTRAL,
    VACUOUS_INCLUDES,
    check_includes,
    check_parameters,
)
from millstream.errors import UnsupportedParameter
from tests.unit.api.responses.requests import request


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_harmless_parameters_are_ignored(name: str) -> None:
    check_parameters(request(**{name: {"any": "thing"}}))


@pytest.mark.parametrize("name", sorted(NEUTRAL))
def test_null_asks_for_nothing(name: str) -> None:
    check_parameters(request(**{name: None}))


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in NEUTRAL.items() for value in values]
)
def test_a_neutral_value_asks_for_nothing(name: str, value: object) -> None:
    check_parameters(request(**{name: value}))


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"reasoning": {"effort": "high"}}, "reasoning"),
        ({"truncation": "auto"}, "truncation"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"text": {"format": {"type": "text", "schema": {}}}}, "text.format.schema"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"text": {"tone": "rude"}}, "text.tone"),
        ({"stream_options": {"include_obfuscation": False}}, "stream_options"),
        (
            {"stream": True, "stream_options": {"include_usage": True}},
            "stream_options.include_usage",
        ),
        ({"max_tokens": 3}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"n": 2}, "n"),
    ],
)
def test_what_would_change_the_answer_is_refused_by_name(
    members: dict[str, object], param: str
) -> None:
    with pytest.raises(UnsupportedParameter) as refused:
        check_parameters(request(**members))
    assert refused.value.param == param
    assert param.rpartition(".")[2] in str(refused.value)


def test_the_chat_route_s_name_of_a_parameter_leads_to_the_right_one() -> None:
    with pytest.raises(UnsupportedParameter, match="Did you mean 'max_output_tokens'"):
        check_parameters(request(max_completion_tokens=3))


def test_a_reference_to_an_earlier_response_says_what_to_do_instead() -> None:
    with pytest.raises(UnsupportedParameter, match="send all messages in 'input'"):
        check_parameters(request(previous_response_id="resp_1"))


def test_a_background_response_that_is_not_stored_could_never_be_read() -> None:
    with pytest.raises(UnsupportedParameter) as refused:
        check_parameters(request(background=True, store=False))
    assert refused.value.param == "background"


@pytest.mark.parametrize("store", [None, True])
def test_a_background_response_is_stored_by_default(store: bool | None) -> None:
    check_parameters(request(background=True, store=store))


def test_details_that_no_answer_has_are_not_missed() -> None:
    check_includes(VACUOUS_INCLUDES)
    check_parameters(request(include=sorted(VACUOUS_INCLUDES)))


def test_plain_text_is_what_is_written_anyway() -> None:
    check_parameters(request(text={"format": {"type": "text"}, "verbosity": "medium"}))
