"""The whole answer in the shape of each route."""

from __future__ import annotations

import pytest

from millstream._core import Log
from millstream.api.dialect import completion_object
from millstream.store.descriptor import BranchDescriptor, Descriptor, DialectName
from millstream.store.recording import Recording
from millstream.types import Kind, Outcome, Usage


def recording(dialect: DialectName, *, choices: int, max_bytes: int = 1000) -> Recording:
    branch = BranchDescriptor(model="m", chunk_id="c-1", choices=choices)
    descriptor = Descriptor(
        id="s", route="r", dialect=dialect, created=1_700_000_000, branches=(branch,)
    )
    return Recording(descriptor, Log(max_bytes=max_bytes))


def finished(recording: Recording, *reasons: str) -> Recording:
    for choice, reason in enumerate(reasons):
        recording.log.append(Kind.FINISH, reason, choice=choice, time_ns=1)
    recording.log.append(Kind.USAGE, Usage(7, 3).to_json(), time_ns=1)
    recording.log.close(Outcome.COMPLETED, time_ns=1)
    return recording


def content(choice: object) -> object:
    assert isinstance(choice, dict)
    return choice["message"]["content"] if "message" in choice else choice["text"]


@pytest.mark.parametrize(
    ("dialect", "kind"), [("chat", "chat.completion"), ("completion", "text_completion")]
)
def test_each_choice_has_its_own_text_and_reason(dialect: DialectName, kind: str) -> None:
    stream = recording(dialect, choices=2)
    for choice, text in ((0, "a"), (1, "b"), (0, "c")):
        stream.log.append(Kind.TOKEN, text, choice=choice, token_count=1, time_ns=1)
    answer = completion_object(finished(stream, "stop", "length"))
    assert (answer["id"], answer["object"], answer["created"]) == ("c-1", kind, 1_700_000_000)
    choices = answer["choices"]
    assert isinstance(choices, list)
    assert [choice["index"] for choice in choices] == [0, 1]
    assert [content(choice) for choice in choices] == ["ac", "b"]
    assert [choice["finish_reason"] for choice in choices] == ["stop", "length"]
    assert answer["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def test_a_choice_that_wrote_nothing_is_empty_and_not_missing() -> None:
    choices = completion_object(finished(recording("chat", choices=1), "stop"))["choices"]
    assert isinstance(choices, list)
    assert [content(choice) for choice in choices] == [""]


def test_a_text_whose_beginning_is_gone_is_no_answer() -> None:
    stream = recording("chat", choices=1, max_bytes=8)
    for _ in range(9):
        stream.log.append(Kind.TOKEN, "abc", token_count=1, time_ns=1)
    with pytest.raises(ValueError, match="no longer"):
        completion_object(finished(stream, "stop"))
