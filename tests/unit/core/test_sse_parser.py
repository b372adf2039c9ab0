"""The rules of the WHATWG's event stream interpretation, one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream._core import SseEvent, SseEventTooLarge, SseParser

CRAB = "🦀漢é"


def message(data: str, id: str = "", *, event: str = "message") -> SseEvent:
    return SseEvent(event, data, id)


RULES: dict[str, tuple[bytes, list[SseEvent]]] = {
    "one event": (b"data: a\n\n", [message("a")]),
    "data lines are joined": (b"data: a\ndata:\ndata: b\n\n", [message("a\n\nb")]),
    "one space after the colon goes": (b"data:a\ndata:  b\n\n", [message("a\n b")]),
    "a tab stays": (b"data:\ta\n\n", [message("\ta")]),
    "later colons belong to the value": (b"data: a: b\n\n", [message("a: b")]),
    "a bare name has an empty value": (b"data\n\ndata\ndata\n\n", [message(""), message("\n")]),
    "no data, no event": (b"event: x\n\nretry: 5\n\n\n\n", []),
    "the event name lasts for one block": (
        b"event: x\n\ndata: a\n\nevent: y\ndata: b\n\ndata: c\n\n",
        [message("a"), message("b", event="y"), message("c")],
    ),
    "the last event name counts": (b"event: x\nevent\ndata: a\n\n", [message("a")]),
    "an id without data is kept": (b"id: 1\n\ndata: a\n\n", [message("a", "1")]),
    "an id lasts": (b"data: a\nid: 1\n\ndata: b\n\n", [message("a", "1"), message("b", "1")]),
    "an empty id resets": (b"id: 1\ndata: a\n\nid\ndata: b\n\n", [message("a", "1"), message("b")]),
    "an id with NUL is ignored": (b"id: 1\nid: 2\0\ndata: a\n\n", [message("a", "1")]),
    "retry comes with its event": (
        b"retry: 10\ndata: a\n\ndata: b\n\n",
        [SseEvent("message", "a", "", 10), message("b")],
    ),
    "retry takes ASCII digits only": (
        "retry: 1s\nretry: -1\nretry: +1\nretry:  1\nretry:\nretry: ٣\ndata: a\n\n".encode(),
        [message("a")],
    ),
    "comments are ignored": (b":\n: data: x\ndata: a\n:\ndata: b\n\n:\n", [message("a\nb")]),
    "unknown fields are ignored": (
        b"Data: x\ndata : y\n data: z\nfoo\ndata: a\n\n",
        [message("a")],
    ),
    "only CR and LF end lines": (
        "data: a\u2028b\u2029c\x85d\x0be\x0cf\n\n".encode(),
        [message("a\u2028b\u2029c\x85d\x0be\x0cf")],
    ),
    "mixed line ends": (
        b"data: a\r\rdata: b\r\n\r\ndata: c\n\r\n",
        [message("a"), message("b"), message("c")],
    ),
    "LF and CR are two ends": (b"data: a\n\rdata: b\n\n", [message("a"), message("b")]),
    "one leading mark goes": (b"\xef\xbb\xbfdata: a\n\n", [message("a")]),
    "a second mark is part of the name": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
    "a later mark stays": (
        b"\ndata: \xef\xbb\xbfa\n\n\xef\xbb\xbfdata: b\n\n",
        [message("\ufeffa")],
    ),
    "invalid bytes are replaced": (
        b"data: \xff|\xe2\x82|\xf0\x9f\xa6\nevent: \xc0\xaf\n\n",
        [message("\ufffd|\ufffd|\ufffd", event="\ufffd\ufffd")],
    ),
}

ENDINGS = {
    "whole events": (b"data: a\n\n", False),
    "nothing": (b"", False),
    "a mark": (b"\xef\xbb\xbf", False),
    "a part of a mark": (b"\xef\xbb", False),
    "a part of a mark and more": (b"\xef\xbbx", True),
    "no blank line": (b"data: a\n\ndata: b\n", True),
    "an unknown field": (b"x\n", True),
    "an unfinished line": (b"data: a\n\ndat", True),
    "an unfinished comment": (b"data: a\n\n: pi", False),
    "an unfinished comment in an event": (b"data: a\n: pi", True),
    "a finished comment": (b":\n", False),
}


def bytewise(parser: SseParser, stream: bytes) -> list[SseEvent]:
    return [event for byte in stream for event in parser.feed(bytes([byte]))]


@pytest.mark.parametrize("feed", [SseParser.feed, bytewise], ids=["at once", "by byte"])
@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str, feed: Callable[[SseParser, bytes], list[SseEvent]]) -> None:
    stream, events = RULES[rule]
    parser = SseParser()
    assert feed(parser, stream) == events
    assert not parser.finish()


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_unfinished_event_is_lost_and_said_so(ending: str) -> None:
    stream, pending = ENDINGS[ending]
    parser = SseParser()
    parser.feed(stream)
    assert parser.finish() is pending
    assert parser.feed(b"\n\n") == []


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=["LF", "CR", "CRLF"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "marked"])
def test_framing_survives_a_split_at_every_byte(end: bytes, mark: bytes) -> None:
    # higress-group/higress#4620 (lines, CRLF) and api7/aisix#111 (characters)
    lines = [b"id: 1", f"data: {CRAB}".encode(), b"data: b", b"", b"event: x", b"data: c", b"", b""]
    stream = mark + end.join(lines)
    expected = [message(f"{CRAB}\nb", "1"), message("c", "1", event="x")]
    for cut in range(len(stream) + 1):
        parser = SseParser()
        assert parser.feed(stream[:cut]) + parser.feed(stream[cut:]) == expected
        assert not parser.finish()


def test_an_event_is_given_out_at_its_blank_lines_carriage_return() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\r\n\r") == [message("a")]
    assert parser.feed(b"\ndata: b\r\n\r\n") == [message("b")]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_of_bytes_is_taken(kind: Callable[[bytes], bytes]) -> None:
    assert SseParser().feed(kind(b"data: a\n\n")) == [message("a")]


def test_a_memoryview_with_gaps_is_taken() -> None:
    interleaved = b"".join(bytes([byte, 0]) for byte in b"data: a\n\n")
    assert SseParser().feed(memoryview(interleaved)[::2]) == [message("a")]


def test_text_is_not_taken() -> None:
    with pytest.raises(TypeError):
        SseParser().feed("data: a\n\n")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "stream",
    [
        b"data: abcd",
        b"data: abcd\n\n",
        b"data:a\ndata",
        b"x: abcdefg\n",
        b":comment: ",
        b"data:\n" * 2,
    ],
)
def test_an_event_beyond_the_limit_poisons_the_parser(stream: bytes) -> None:
    parser = SseParser(max_event_bytes=9)
    with pytest.raises(SseEventTooLarge, match="larger than 9 bytes"):
        parser.feed(stream)
    with pytest.raises(SseEventTooLarge):
        parser.feed(b"\n\ndata: a\n\n")
    with pytest.raises(SseEventTooLarge):
        parser.finish()


def test_many_events_and_comments_within_the_limit_pass() -> None:
    parser = SseParser(max_event_bytes=9)
    assert parser.feed(b":comment\ndata: abc\n:comment\n\n" * 50) == [message("abc")] * 50


def test_a_mark_does_not_count_towards_the_limit() -> None:
    parser = SseParser(max_event_bytes=7)
    assert bytewise(parser, b"\xef\xbb\xbfdata: a\n\n") == [message("a")]
    assert bytewise(SseParser(max_event_bytes=1), b"\xef\xbb\xbfx\n\n") == []


def test_events_before_the_limit_was_passed_are_given_out_first() -> None:
    parser = SseParser(max_event_bytes=9)
    assert parser.feed(b"data: a\n\ndata: much\n\n") == [message("a")]
    with pytest.raises(SseEventTooLarge):
        parser.feed(b"")


def test_a_new_connection_keeps_the_last_id_and_the_retry_time() -> None:
    parser = SseParser()
    parser.feed(b"id: 7\nretry: 20\n\nid: 8\ndata: cut")
    assert (parser.last_event_id, parser.retry) == ("7", 20)
    assert parser.finish()
    assert parser.feed(b"\xef\xbb\xbfdata: a\n\n") == [message("a", "7")]
    assert parser.retry == 20


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        SseParser(max_event_bytes=0)


def test_events_are_values() -> None:
    event = SseEvent("x", "it's\n", "1", 5)
    assert repr(event) == """SseEvent(event='x', data="it's\\n", id='1', retry=5)"""
    assert event == SseEvent("x", "it's\n", id="1", retry=5)
    assert len({event, SseEvent("x", "it's\n", "1", 5), message("a")}) == 2
    with pytest.raises(AttributeError):
        event.data = "b"  # type: ignore[misc]
