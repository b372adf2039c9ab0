"""The whole answer in the shape of each route."""

from __future__ import annotations

import pytest

from millstream.api.dialect import CHAT, COMPLETION, Dialect, completion_object
from millstream.streams.stream import Stream
from millstream.types import Kind, SamplingParams
from tests.unit.streams.parts import Bench


def ended(bench: Bench, dialect: Dialect) -> Stream:
    """A stream of two choices that came interleaved."""
    stream = bench.stream(id_prefix=dialect.id_prefix, choices=2)
    stream.start([([1], SamplingParams(max_tokens=5, n=2))])
    stream.attach()
    for choice, text in ((0, "a"), (1, "b"), (0, "c")):
        bench.engine.token(1, text, choice=choice)
    stream.log.append(Kind.FINISH, "length", choice=1, time_ns=1)
    bench.engine.finish(1, tokens=3)
    return stream


def content(choice: object) -> object:
    assert isinstance(choice, dict)
    return choice["message"]["content"] if "message" in choice else choice["text"]


@pytest.mark.parametrize(
    ("dialect", "id", "kind"),
    [
        (CHAT, "chatcmpl-stream-1", "chat.completion"),
        (COMPLETION, "cmpl-stream-1", "text_completion"),
    ],
    ids=["chat", "completion"],
)
def test_each_choice_has_its_own_text_and_reason(dialect: Dialect, id: str, kind: str) -> None:
    answer = completion_object(dialect, ended(Bench(), dialect), choices=2)
    assert (answer["id"], answer["object"], answer["created"]) == (id, kind, 1_700_000_000)
    choices = answer["choices"]
    assert isinstance(choices, list)
    assert [choice["index"] for choice in choices] == [0, 1]
    assert [content(choice) for choice in choices] == ["ac", "b"]
    assert [choice["finish_reason"] for choice in choices] == ["stop", "length"]
    assert answer["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def test_a_choice_that_wrote_nothing_is_empty_and_not_missing() -> None:
    bench = Bench()
    stream = bench.started()
    stream.attach()
    bench.engine.finish(1)
    choices = completion_object(CHAT, stream, choices=1)["choices"]
    assert isinstance(choices, list)
    assert [content(choice) for choice in choices] == [""]
