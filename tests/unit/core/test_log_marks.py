"""What a log tells the encoder about each record: running CRC, leaves, checks, texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream import _core
from millstream.types import Kind
from tests.reference import log as twin

STREAM_ID = b"strm-1"
TEXTS = [f"<{number}>" for number in range(20)]
NATIVE: dict[str, Any] = {
    "dialect": "native",
    "framing": "ndjson",
    "chunk_id": "c",
    "model": "m",
    "created": 1,
    "epoch": 1,
    "integrity": True,
}


def filled(**options: Any) -> tuple[_core.Log, twin.Integrity]:
    """A finished log, and the checks of its text by definition."""
    log, expected = (each.Log(integrity=STREAM_ID, **options) for each in (_core, twin))
    for text in TEXTS:
        for each in (log, expected):
            each.append(Kind.TOKEN, text, token_count=1, time_ns=1)
    for each in (log, expected):
        each.append(Kind.FINISH, "stop", time_ns=1)
        each.close("completed", time_ns=1)
    assert expected.integrity is not None
    return log, expected.integrity


def lines(reader: _core.Reader, max_bytes: int = 1 << 20) -> list[dict[str, Any]]:
    return [json.loads(line) for line in reader.take(max_bytes).splitlines()]


def one_by_one(reader: _core.Reader) -> list[dict[str, Any]]:
    found = []
    while not reader.finished:
        found += lines(reader, 1)
    return found


def test_a_reader_is_told_the_checks_of_every_place() -> None:
    log, expected = filled()
    frames = lines(_core.Reader(log, _core.Encoder(**NATIVE)))
    ids = [frame["id"] for frame in frames if "id" in frame]
    assert ids == [f"1-{seq}-{expected.crc(seq):08x}" for seq in range(1, 23)]
    leaves = [(it["index"], it["digest"]) for it in frames if it["event"] == "leaf"]
    assert leaves == [(index, digest.hex()) for index, _, digest in expected.leaves()[:2]]
    records, size, crc, root = expected.checks()
    assert frames[-1]["checks"] == {
        "records": records,
        "bytes": size,
        "crc": f"{crc:08x}",
        "root": root.hex(),
    }


@pytest.mark.parametrize("take", [lines, one_by_one])
@pytest.mark.parametrize("after", [0, 1, 7, 8, 9, 15, 16, 17, 20, 21])
def test_it_does_not_matter_where_a_reader_joins_and_how_it_takes(after: int, take: Any) -> None:
    log, _ = filled()
    whole = lines(_core.Reader(log, _core.Encoder(**NATIVE)))
    found = take(_core.Reader(log, _core.Encoder(**NATIVE), after=after))
    assert found == whole[-len(found) :]
    assert found[0]["id"].startswith(f"1-{after + 1}-")


def test_the_checks_go_on_after_a_gap() -> None:
    log, expected = filled(max_records=5)
    reader = _core.Reader(log, _core.Encoder(**NATIVE), after=3)
    assert (lines(reader), reader.gap) == ([], (18, 22))
    reader.skip_gap()
    ids = [frame["id"] for frame in lines(reader)]
    assert ids == [f"1-{seq}-{expected.crc(seq):08x}" for seq in range(18, 23)]


def test_a_reader_overrun_in_the_middle_is_told_the_right_checks_again() -> None:
    log = _core.Log(integrity=STREAM_ID, max_records=4)
    expected = twin.Log(integrity=STREAM_ID)
    reader = _core.Reader(log, _core.Encoder(**NATIVE))
    for number, text in enumerate(TEXTS):
        for each in (log, expected):
            each.append(Kind.TOKEN, text, token_count=1, time_ns=1)
        if number == 1:
            assert len(lines(reader)) == 2
    assert (lines(reader), reader.gap) == ([], (17, 20))
    reader.skip_gap()
    assert expected.integrity is not None
    assert lines(reader)[0]["id"] == f"1-17-{expected.integrity.crc(17):08x}"


def test_a_log_without_checks_has_none_to_tell() -> None:
    log = _core.Log()
    log.append(Kind.TOKEN, "a", time_ns=1)
    log.close("completed", time_ns=1)
    token, done = lines(_core.Reader(log, _core.Encoder(**NATIVE)))
    assert token["id"] == "1-1"
    assert "checks" not in done


@pytest.mark.parametrize("after", [0, 3, 4])
@pytest.mark.parametrize("max_records", [100, 2])
def test_the_whole_text_is_told_where_a_choice_ends(after: int, max_records: int) -> None:
    log = _core.Log(max_records=max_records)
    encoder = _core.Encoder(
        dialect="responses", chunk_id="c", model="m", created=1, response='{"id":"resp_1"}'
    )
    for text in ["one ", "two ", "thrée"]:
        log.append(Kind.TOKEN, text, token_count=1, time_ns=1)
    log.append(Kind.FINISH, "stop", time_ns=1)
    log.close("completed", time_ns=1)
    reader = _core.Reader(log, encoder, after=max(after, log.oldest - 1))
    events = _core.SseParser().feed(reader.take())
    done = [
        json.loads(event.data) for event in events if event.event == "response.output_text.done"
    ]
    assert [event["text"] for event in done] == ["one two thrée"] * (after < 4)
    assert "one two thrée" in events[-1].data
