"""The format rules of the Web Platform Tests for `EventSource`, as a table of our own.

The names are those of the files in web-platform-tests/wpt, folder ``eventsource``; inputs and
expectations are theirs in our words, each as a whole stream: their server adds the final blank line
where a file does not switch that off. What the files say about requests and reconnecting is not
the parser's.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from millstream._core import Encoder, SseEvent, SseParser
from millstream.types import Kind

BOM = "\ufeff"
LONG = "x" * 2048


class Case(NamedTuple):
    """A stream and what a client must see of it."""

    stream: str
    events: list[SseEvent]
    last_event_id: str = ""
    retry: int | None = None
    unfinished: bool = False


def message(data: str, id: str = "", *, event: str = "message") -> SseEvent:
    return SseEvent(event, data, id)


CASES: dict[str, Case] = {
    "format-bom": Case(
        f"{BOM}data:1\n\n{BOM}data:2\n\ndata:3\n\n", [message("1"), message("3")]
    ),
    "format-bom-2": Case(
        f"{BOM}{BOM}data:1\n\ndata:2\n\ndata:3\n\n", [message("2"), message("3")]
    ),
    "format-comments": Case(
        f"data:1\r:\0\n:\r\ndata:2\n:{LONG}\rdata:3\n:data:fail\r:{LONG}\ndata:4\n\n",
        [message("1\n2\n3\n4")],
    ),
    "format-data-before-final-empty-line": Case(
        "retry:1000\ndata:test1\n\nid:test\ndata:test2",
        [SseEvent("message", "test1", "", 1000)],
        retry=1000,
        unfinished=True,
    ),
    "format-field-data": Case(
        "data:\n\ndata\ndata\n\ndata:test\n\n", [message(""), message("\n"), message("test")]
    ),
    "format-field-event": Case(
        "event:test\ndata:x\n\ndata:x\n\n", [message("x", event="test"), message("x")]
    ),
    "format-field-event-empty": Case("event: \ndata:data\n\n", [message("data")]),
    "format-field-id": Case(
        "id:…\nretry:200\ndata:hello\n\n", [SseEvent("message", "hello", "…", 200)], "…", 200
    ),
    # the id comes back with the request, and stays that of events without one
    "format-field-id-2": Case("id:…\ndata:hello\n\ndata:…\n\ndata:…\n\n", [
        message("hello", "…"), message("…", "…"), message("…", "…")
    ], "…"),
    "format-field-id-3 persists": Case(
        "id: 1\ndata: 1\n\ndata:2\n\n", [message("1", "1"), message("2", "1")], "1"
    ),
    "format-field-id-3 changes and persists": Case(
        "id: 1\ndata: 1\n\nid: 2\ndata:2\n\ndata:3\n\n",
        [message("1", "1"), message("2", "2"), message("3", "2")],
        "2",
    ),
    "format-field-id-3 resets": Case(
        "id: 1\ndata: 1\n\nid:\ndata:2\n\ndata:3\n\n",
        [message("1", "1"), message("2"), message("3")],
    ),
    # NUL alone, last, first, between and after a space
    "format-field-id-null": Case(
        "".join(
            f"id:{id}\nretry:200\ndata:hello\n\n" for id in ("\0\0", "x\0", "\0x", "x\0x", " \0")
        ),
        [SseEvent("message", "hello", "", 200)] * 5,
        retry=200,
    ),
    "format-field-parsing": Case(
        "data:\0\ndata:  2\rData:1\ndata\0:2\ndata:1\r\0data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n"
        " data:32\ndata:4\n\n",
        [message("\0\n 2\n1\n3\n\n4")],
    ),
    # leading zeros are no octal
    "format-field-retry": Case(
        "retry:03000\ndata:x\n\n", [SseEvent("message", "x", "", 3000)], retry=3000
    ),
    "format-field-retry-bogus": Case(
        "retry:3000\nretry:1000x\ndata:x\n\n", [SseEvent("message", "x", "", 3000)], retry=3000
    ),
    "format-field-retry-empty": Case("retry\ndata:test\n\n", [message("test")]),
    "format-field-unknown": Case(
        "data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\ndata:test\n\n",
        [message("test\n\ntest")],
    ),
    "format-leading-space": Case(
        "data:\ttest\rdata: \ndata:test\n\n", [message("\ttest\n\ntest")]
    ),
    "format-newlines": Case(
        "data:test\r\ndata\ndata:test\r\n\r", [message("test\n\ntest")]
    ),
    "format-null-character": Case("data:\0\n\n\n\n", [message("\0")]),
    "format-utf-8": Case("data:ok…\n\n", [message("ok…")]),
    "event-data": Case(
        "data:msg\ndata: msg\n\n:\nfalsefield:msg\n\nfalsefield:msg\nData:data\n\ndata\n\n"
        "data:end\n\n",
        [message("msg\nmsg"), message(""), message("end")],
    ),
}  # fmt: skip


def seen(pieces: list[bytes]) -> tuple[Any, ...]:
    parser = SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events, parser.last_event_id, parser.retry, parser.finish()


@pytest.mark.parametrize("name", CASES)
def test_a_client_sees_what_the_files_say_at_every_split(name: str) -> None:
    case = CASES[name]
    stream = case.stream.encode()
    expected = (case.events, case.last_event_id, case.retry, case.unfinished)
    assert seen([stream]) == expected
    assert seen([bytes([byte]) for byte in stream]) == expected
    for cut in range(len(stream) + 1):
        assert seen([stream[:cut], stream[cut:]]) == expected, cut


# Everything that the files above put into a stream to break a parser, put into what we are given.
HOSTILE = {
    "mark": BOM,
    "line ends": "a\nb\rc\r\nd\n\ne\r\rf\r\n\r\ng",
    "fields": "\ndata: x\nid: 9\nevent: x\nretry: 5\n\n",
    "comment": "\n: x\n",
    "NUL": "a\0b",
    "spaces": "  a \t",
    "other line ends": "a\x0b\x0c\x1c\x85\u2028\u2029b",
    "quotes": '"\\u0000\\"}',
    "nothing": "",
}
DIALECTS = ["chat", "completion", "native", "responses"]


def hostile_records(text: str) -> list[tuple[int, int, int, int, int, str]]:
    error = {"message": text, "type": text, "param": None, "code": text}
    pairs = [
        *[(Kind.TOKEN, text)] * 8,
        (Kind.FINISH, text),
        (Kind.USAGE, json.dumps({"prompt_tokens": 1, "completion_tokens": 2}, indent=1)),
        (Kind.BRANCH_END, text),
        (Kind.HANDOVER, json.dumps({"stream_id": text, "retry_ms": 7}, indent=1)),
        (Kind.ERROR, json.dumps(error, indent=1)),
        (Kind.END, text),
    ]
    return [(seq, 0, kind, 0, 1, payload) for seq, (kind, payload) in enumerate(pairs, 1)]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_that_is_encoded_breaks_a_rule(name: str, dialect: str) -> None:
    text = HOSTILE[name]
    encoder = Encoder(
        dialect=dialect,
        chunk_id=text,
        model=text,
        created=0,
        metadata=True,
        include_usage=True,
        epoch=1,
        integrity=True,
        fields=True,
        retry_ms=5,
        stream_id=text,
        response=json.dumps({"id": text}, indent=1) if dialect == "responses" else None,
    )
    body = encoder.prelude() + encoder.encode(hostile_records(text))
    assert not body.startswith(BOM.encode())
    assert b"\r" not in body
    assert body.endswith(b"\n\n")
    frames = body.removesuffix(b"\n\n").split(b"\n\n")
    for frame in frames:
        assert_is_one_frame(frame.decode().split("\n"))
    (events, last_event_id, _, unfinished) = seen([body])
    assert len(events) == len(frames)
    assert last_event_id.startswith("1-")
    assert not unfinished


def assert_is_one_frame(lines: list[str]) -> None:
    """Known fields in their order, each at most once, data last and always there."""
    names = [line.partition(": ")[0] for line in lines]
    order = ["id", "retry", "event", "model-id", "chunk-id", "token-count", "data"]
    assert names == [name for name in order if name in names]
    assert lines[-1].startswith("data: ")
    json.loads(lines[-1].removeprefix("data: "))


def test_text_comes_back_whatever_it_is() -> None:
    for text in HOSTILE.values():
        encoder = Encoder(dialect="native", chunk_id="c", model="m", created=0, fields=True)
        (event,) = SseParser().feed(encoder.encode([(1, 0, Kind.TOKEN, 0, 1, text)]))
        assert json.loads(event.data)["text"] == text


def test_a_name_with_line_ends_stays_on_its_line() -> None:
    name = "a\r\nid: 9\n\nb"
    encoder = Encoder(dialect="native", chunk_id=name, model=name, created=0, fields=True)
    frame = encoder.encode([(4, 0, Kind.TOKEN, 0, 2, "x")]).decode()
    assert frame.split("\n")[:4] == [
        "event: token",
        "model-id: a  id: 9  b",
        "chunk-id: a  id: 9  b-4",
        "token-count: 2",
    ]
