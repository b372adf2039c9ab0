"""What a client asks of its stream, by body, by header, by policy."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from starlette.requests import Request

from millstream.api.opt_ins import OptIns, native_opt_ins, openai_opt_ins
from millstream.api.schemas import CreateStreamRequest, GenerationRequest
from millstream.config import StreamPolicy
from millstream.errors import InvalidParameter, UnsupportedParameter


def request(headers: Mapping[str, str]) -> Request:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "headers": raw})


def openai(
    options: Mapping[str, object] | None,
    headers: Mapping[str, str] | None = None,
    *,
    stream: bool = True,
    policy: StreamPolicy | None = None,
) -> OptIns:
    body = GenerationRequest.model_validate(
        {"model": "m", "stream": stream, "stream_options": options}
    )
    return openai_opt_ins(request(headers or {}), body, policy or StreamPolicy())


def native(fields: Mapping[str, object], headers: Mapping[str, str] | None = None) -> OptIns:
    body = CreateStreamRequest.model_validate(fields)
    return native_opt_ins(request(headers or {}), body, StreamPolicy())


def test_nothing_is_on_unless_asked() -> None:
    assert openai(None) == openai({}) == OptIns()


@pytest.mark.parametrize(
    ("options", "headers", "wanted"),
    [
        ({"resumable": True}, {}, OptIns(resumable=True)),
        ({}, {"X-Stream-Resumable": "1"}, OptIns(resumable=True)),
        ({}, {"X-Stream-Resumable": " TRUE "}, OptIns(resumable=True)),
        ({}, {"X-Stream-Resumable": "0"}, OptIns()),
        ({"integrity": True}, {}, OptIns(resumable=True, integrity=True)),
        ({}, {"X-Stream-Integrity": "1"}, OptIns(resumable=True, integrity=True)),
        ({"include_metadata": True}, {}, OptIns(metadata=True)),
        ({}, {"X-Stream-Metadata": "1"}, OptIns(metadata=True)),
        ({"fields": True, "include_usage": True}, {}, OptIns(fields=True, include_usage=True)),
        # The body knows better than a header that a proxy may have set.
        ({"resumable": False}, {"X-Stream-Resumable": "1"}, OptIns()),
        ({"resumable": True}, {"X-Stream-Resumable": "0"}, OptIns(resumable=True)),
    ],
)
def test_an_openai_stream_has_what_body_or_header_ask_for(
    options: Mapping[str, object], headers: Mapping[str, str], wanted: OptIns
) -> None:
    assert openai(options, headers) == wanted


def test_a_policy_decides_where_the_request_does_not() -> None:
    policy = StreamPolicy(resumable_default=True, fields=True)
    assert openai({}, policy=policy) == OptIns(resumable=True, fields=True)
    assert openai({"resumable": False, "fields": False}, policy=policy) == OptIns()


def test_a_whole_answer_has_no_frames_to_put_them_in() -> None:
    headers = {"X-Stream-Resumable": "1", "X-Stream-Metadata": "1", "X-Stream-Integrity": "1"}
    policy = StreamPolicy(resumable_default=True, fields=True)
    assert openai(None, headers, stream=False, policy=policy) == OptIns()


def test_a_native_stream_is_resumable_and_shows_usage_unless_it_says_otherwise() -> None:
    assert native({}) == OptIns(resumable=True, include_usage=True)
    assert native({"resumable": False}) == OptIns(include_usage=True)
    assert native({}, {"X-Stream-Resumable": "0"}) == OptIns(include_usage=True)
    assert native({"integrity": True, "metadata": True, "fields": True}) == OptIns(
        include_usage=True, resumable=True, integrity=True, metadata=True, fields=True
    )


@pytest.mark.parametrize("name", ["X-Stream-Resumable", "X-Stream-Integrity", "X-Stream-Metadata"])
@pytest.mark.parametrize("value", ["yes", "", "2", "1, 1"])
def test_a_header_with_another_value_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidParameter, match="must be 1 or 0") as refused:
        openai({}, {name: value})
    assert refused.value.param == name


def test_checks_without_ids_are_a_contradiction() -> None:
    with pytest.raises(UnsupportedParameter) as refused:
        openai({"resumable": False}, {"X-Stream-Integrity": "1"})
    assert refused.value.param == "stream_options.integrity"
