"""What a stream was charged in the end, from its log to the last frame."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from millstream import _core
from millstream.types import Kind, Settlement

SETTLED = Settlement(charged=12, reserved=40, partial=False, remaining_tokens=88)
FIGURES = {"charged": 12, "reserved": 40, "partial": False, "remaining_tokens": 88}


def closed(outcome: str = "completed", *, integrity: bool = False) -> _core.Log:
    log = _core.Log(integrity=b"s1" if integrity else None)
    log.append(Kind.TOKEN, "hi", token_count=1, time_ns=1)
    log.close(outcome, SETTLED.to_json(), time_ns=2)
    return log


def frames(log: _core.Log, *, after: int = 0, **options: Any) -> bytes:
    defaults: dict[str, Any] = {"chunk_id": "c1", "model": "m", "created": 7}
    encoder = _core.Encoder(**defaults | options)
    return _core.Reader(log, encoder, after=after).take()


def events(written: bytes) -> list[str]:
    return [event.data for event in _core.SseParser().feed(written)]


def test_a_log_tells_its_outcome_and_its_settlement_apart() -> None:
    log = closed("cancelled")
    assert log.outcome == "cancelled"
    assert Settlement.from_json(log.settlement or "") == SETTLED


def test_a_log_whose_cost_nobody_knows_has_no_settlement() -> None:
    log = _core.Log()
    assert log.settlement is None
    log.close("engine_lost", time_ns=1)
    assert (log.outcome, log.settlement) == ("engine_lost", None)


@pytest.mark.parametrize(
    "settlement",
    ["", "{}", "[]", "{", '{"charged":1}', SETTLED.to_json() + "\n\ndata: [DONE]", "null"],
)
def test_a_settlement_of_another_form_is_refused_and_nothing_written(settlement: str) -> None:
    log = _core.Log()
    with pytest.raises(ValueError, match="settlement"):
        log.close("completed", settlement, time_ns=1)
    assert (log.closed, log.tail) == (False, 0)


def test_an_outcome_that_would_not_come_back_is_refused() -> None:
    with pytest.raises(ValueError, match="one word"):
        _core.Log().close("not one", time_ns=1)


def test_a_settlement_reads_only_what_it_is() -> None:
    with pytest.raises(msgspec.DecodeError):
        Settlement.from_json('{"charged":"much"}')


def test_a_mirror_has_the_settlement_too() -> None:
    log = closed()
    batch = log.pack(0)
    assert batch is not None
    mirror = _core.Log.mirror(batch[0])
    assert (mirror.outcome, mirror.settlement) == (log.outcome, log.settlement)


@pytest.mark.parametrize("integrity", [False, True])
def test_native_readers_find_it_in_their_last_event(integrity: bool) -> None:
    log = closed("length", integrity=integrity)
    options: dict[str, Any] = {"dialect": "native", "metadata": True, "integrity": integrity}
    *_, done = events(frames(log, **options))
    told = json.loads(done)
    assert (told["outcome"], told["settled"]) == ("length", FIGURES)
    assert ("checks" in told) is integrity


@pytest.mark.parametrize("integrity", [False, True])
@pytest.mark.parametrize("dialect", ["chat", "completion"])
def test_openai_readers_find_it_in_a_chunk_without_choices_before_done(
    dialect: str, integrity: bool
) -> None:
    log = closed(integrity=integrity)
    options: dict[str, Any] = {"dialect": dialect, "metadata": True, "integrity": integrity}
    *_, last, done = events(frames(log, **options))
    told = json.loads(last)
    assert done == "[DONE]"
    assert (told["choices"], told["stream"]["settled"]) == ([], FIGURES)
    assert ("checks" in told["stream"]) is integrity


def test_an_openai_stream_that_was_cut_says_what_it_cost_and_nothing_more() -> None:
    *_, last = events(frames(closed("cancelled"), dialect="chat", metadata=True))
    assert json.loads(last)["stream"]["settled"] == FIGURES


def test_a_reader_cut_off_before_done_gets_both_again() -> None:
    written = frames(closed(), dialect="chat", metadata=True, epoch=1)
    parsed = _core.SseParser().feed(written)
    assert [event.id for event in parsed] == ["1-1", "1-1", "1-2"]
    again = events(frames(closed(), dialect="chat", metadata=True, epoch=1, after=1))
    assert [json.loads(again[0])["stream"]["settled"], again[1]] == [FIGURES, "[DONE]"]


def test_lines_of_json_end_with_it() -> None:
    *_, last = frames(closed(), dialect="chat", framing="ndjson", metadata=True).splitlines()
    assert json.loads(last)["stream"]["settled"] == FIGURES


@pytest.mark.parametrize("framing", ["sse", "ndjson"])
@pytest.mark.parametrize("dialect", ["chat", "completion", "native", "responses"])
def test_without_metadata_the_bytes_are_those_of_a_stream_without_figures(
    dialect: str, framing: str
) -> None:
    plain = _core.Log()
    plain.append(Kind.TOKEN, "hi", token_count=1, time_ns=1)
    plain.close("completed", time_ns=2)
    options: dict[str, Any] = {"dialect": dialect, "framing": framing}
    assert frames(closed(), **options) == frames(plain, **options)


@pytest.mark.parametrize("framing", ["sse", "ndjson"])
@pytest.mark.parametrize(
    ("outcome", "event"),
    [("completed", "completed"), ("cancelled", "incomplete"), ("engine_lost", "failed")],
)
def test_readers_of_a_response_find_it_beside_the_response(
    outcome: str, event: str, framing: str
) -> None:
    options: dict[str, Any] = {"dialect": "responses", "metadata": True, "framing": framing}
    written = frames(closed(outcome), **options)
    *_, last = written.splitlines() if framing == "ndjson" else events(written)
    told = json.loads(last)
    assert told["type"] == f"response.{event}"
    assert told["stream"]["settled"] == FIGURES
    assert "settled" not in told["response"]


def test_a_response_whose_cost_nobody_knows_says_nothing_of_it() -> None:
    log = _core.Log()
    log.close("engine_lost", time_ns=1)
    *_, last = events(frames(log, dialect="responses", metadata=True))
    assert json.loads(last)["stream"] == {
        "seq": 1,
        "ts": "1970-01-01T00:00:00.000000Z",
        "model_id": "m",
        "chunk_id": "c1-1",
        "token_count": 0,
    }
