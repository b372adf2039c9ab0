"""Response objects, judged by openai-python's types."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from openai.types.responses import Response

from millstream._core import Log
from millstream.api.responses.ids import item_id, response_id, stream_id_of
from millstream.api.responses.objects import response_object
from millstream.store.recording import Recording
from millstream.types import Failure, Outcome
from tests.unit.api.responses.recordings import TIME, ended, recording, written
from tests.unit.api.responses.strictly import as_response


def shown(log: Log, **members: object) -> Response:
    return as_response(msgspec.json.encode(response_object(recording(log, **members))))


def test_ids_lead_back_to_the_stream() -> None:
    assert stream_id_of(response_id("a-_1")) == "a-_1"
    assert stream_id_of("chatcmpl-a-_1") is None
    assert item_id("a") == "msg_a"


def test_a_background_response_waits_until_its_first_record() -> None:
    assert shown(Log(), background=True).status == "queued"
    assert shown(written("Hi"), background=True).status == "in_progress"


def test_a_response_that_somebody_listens_to_is_in_progress_from_the_start() -> None:
    response = shown(Log())
    assert response.status == "in_progress"
    assert response.output == []
    assert response.usage is None


def test_the_text_so_far_can_be_seen() -> None:
    response = shown(written("Hi", " there"))
    assert response.output_text == "Hi there"
    assert response.output[0].to_dict()["status"] == "in_progress"


def test_a_completed_response_has_its_text_and_its_cost() -> None:
    response = shown(ended(written("Hi", " there"), Outcome.COMPLETED))
    assert response.status == "completed"
    assert response.output_text == "Hi there"
    assert response.output[0].id == "msg_s1"
    assert response.output[0].to_dict()["status"] == "completed"
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (3, 2)
    assert response.usage.total_tokens == 5
    assert response.error is None
    assert response.incomplete_details is None


def test_an_empty_text_is_a_text_when_it_is_complete() -> None:
    response = shown(ended(Log(), Outcome.COMPLETED))
    assert len(response.output) == 1
    assert response.output_text == ""


def test_a_response_that_reached_its_bound_is_incomplete() -> None:
    response = shown(ended(written("Hi"), Outcome.LENGTH), max_output_tokens=1)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.output[0].to_dict()["status"] == "incomplete"
    assert response.usage is not None


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.CLIENT_GONE])
@pytest.mark.parametrize("background", [True, False])
def test_an_instant_abort_does_not_leave_a_response_queued(
    outcome: Outcome, background: bool
) -> None:
    # community.openai.com topic 1382584: cancelled before the first token, "queued" for ever.
    response = shown(ended(Log(), outcome), background=background)
    assert response.status == "cancelled"
    assert response.output_text == ""
    assert response.error is None


def test_what_a_cancelled_response_had_written_stays() -> None:
    response = shown(ended(written("Hi"), Outcome.CANCELLED), background=True)
    assert response.status == "cancelled"
    assert response.output_text == "Hi"
    assert response.output[0].to_dict()["status"] == "incomplete"


@pytest.mark.parametrize(
    "outcome",
    sorted(
        set(Outcome) - {Outcome.COMPLETED, Outcome.LENGTH, Outcome.CANCELLED, Outcome.CLIENT_GONE}
    ),
)
def test_every_other_end_is_a_failure_with_its_reason(outcome: Outcome) -> None:
    failure = Failure("The engine broke.", "server_error", outcome)
    response = shown(ended(written("Hi"), outcome, failure))
    assert response.status == "failed"
    assert response.error is not None
    assert response.error.code == "server_error"
    assert response.error.message == "The engine broke."


def test_an_input_that_the_engine_refused_is_the_client_s_error() -> None:
    failure = Failure("Too long.", "invalid_request_error", "context_length_exceeded")
    response = shown(ended(Log(), Outcome.UPSTREAM_ERROR, failure))
    assert response.error is not None
    assert response.error.code == "invalid_prompt"


def test_a_text_whose_beginning_is_gone_is_not_shown_as_whole() -> None:
    log = written(*["word"] * 5, log=Log(max_bytes=8))
    with pytest.raises(ValueError, match=r".+"):
        response_object(recording(log))


def test_a_stream_of_another_route_is_no_response() -> None:
    descriptor = msgspec.structs.replace(recording(Log()).descriptor, response=None)
    with pytest.raises(ValueError, match="not a response"):
        response_object(Recording(descriptor, Log()))


def test_what_was_asked_is_told_back() -> None:
    asked: dict[str, Any] = {
        "instructions": "Be brief.",
        "max_output_tokens": 7,
        "metadata": {"topic": 'Zürich "quoted"\n'},
        "parallel_tool_calls": False,
        "prompt_cache_key": "k",
        "safety_identifier": "i",
        "temperature": 0.5,
        "tool_choice": "none",
        "top_p": 0.25,
        "user": "u",
    }
    response = shown(Log(), **asked)
    assert {name: getattr(response, name) for name in asked} == asked
    assert response.created_at == TIME // 10**9
    assert response.model == "words"
    assert response.id == "resp_s1"


def test_defaults_are_told_as_openai_tells_them() -> None:
    response = shown(Log())
    assert response.temperature == 1.0
    assert response.top_p == 1.0
    assert response.tools == []
    assert response.tool_choice == "auto"
    assert response.parallel_tool_calls is True
    assert response.background is False
    assert response.metadata == {}
