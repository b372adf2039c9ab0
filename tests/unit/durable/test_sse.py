from __future__ import annotations

from base64 import b64decode

import pytest

from millstream import SseParser
from millstream.durable.sse import Control, control_event, data_event, whole_characters
from tests.unit.durable.making import JSON, TEXT, media_type

BINARY = media_type("application/octet-stream")


def parsed(frame: bytes) -> list[tuple[str, str]]:
    return [(event.event, event.data) for event in SseParser().feed(frame)]


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (b"plain", "plain"),
        (b" begins with a space", " begins with a space"),
        (b"  two", "  two"),
        (b"a\n b\n", "a\n b\n"),
        (b"a\r\nb\rc\n\nd", "a\nb\nc\n\nd"),
        ("ünï\u2028cödé".encode(), "ünï\u2028cödé"),
        (b"bad \xff byte", "bad \ufffd byte"),
        (b"x\r\n\r\nevent: control\r\ndata: {}\r\n\r\n", "x\n\nevent: control\ndata: {}\n\n"),
    ],
)
def test_text_arrives_as_one_event_with_its_lines(content: bytes, seen: str) -> None:
    assert parsed(data_event(content, TEXT)) == [("data", seen)]


def test_there_is_no_space_unless_it_is_needed() -> None:
    assert data_event(b"a\n b", TEXT) == b"event: data\ndata:a\ndata:  b\n\n"


def test_messages_are_text() -> None:
    assert parsed(data_event(b'[{"a":\n1}]', JSON)) == [("data", '[{"a":\n1}]')]


def test_other_content_is_base64() -> None:
    ((name, data),) = parsed(data_event(bytes(range(256)), BINARY))

    assert (name, b64decode(data, validate=True)) == ("data", bytes(range(256)))


def test_a_control_event_says_only_what_holds() -> None:
    assert control_event(Control("o", "7")) == (
        b'event: control\ndata:{"streamNextOffset":"o","streamCursor":"7"}\n\n'
    )
    assert control_event(Control("o", None, up_to_date=True, stream_closed=True)) == (
        b'event: control\ndata:{"streamNextOffset":"o","upToDate":true,"streamClosed":true}\n\n'
    )


@pytest.mark.parametrize("text", ["", "a", "é", "a€", "a😀", "😀😀"])
def test_a_cut_character_waits_for_its_rest(text: str) -> None:
    data = text.encode()
    for cut in range(len(data) + 1):
        whole = whole_characters(data[:cut])

        assert data.startswith(whole)
        assert cut - len(whole) < 4
        whole.decode()
    assert whole_characters(data) == data


@pytest.mark.parametrize("data", [b"\x80\x80\x80\x80\x80", b"a\x80\x80\x80", b"\xff\x80\x80\x80"])
def test_what_is_no_utf_8_is_not_held_back(data: bytes) -> None:
    assert whole_characters(data) == data
