from __future__ import annotations

import pytest

from millstream.durable import OCTET_STREAM, parse_content_type


@pytest.mark.parametrize(
    ("header", "essence"),
    [
        ("text/plain", "text/plain"),
        (" TEXT/Plain ", "text/plain"),
        ("application/json; charset=utf-8", "application/json"),
        ("application/vnd.x+json;v=1", "application/vnd.x+json"),
    ],
)
def test_the_essence_is_what_is_compared(header: str, essence: str) -> None:
    parsed = parse_content_type(header)

    assert parsed is not None
    assert (parsed.essence, parsed.header) == (essence, header.strip())


@pytest.mark.parametrize(
    "header", ["", "text", "text/", "/plain", "a b/c", "text/plain;\r\nx: y", "text/" + "x" * 300]
)
def test_what_is_no_media_type_is_none(header: str) -> None:
    assert parse_content_type(header) is None


@pytest.mark.parametrize(
    ("header", "is_json", "is_text"),
    [
        ("application/json", True, True),
        ("text/markdown", False, True),
        ("application/ndjson", False, False),
        ("application/vnd.x+json", False, False),
    ],
)
def test_only_one_type_has_messages_and_only_text_is_shown_as_it_is(
    header: str, is_json: bool, is_text: bool
) -> None:
    parsed = parse_content_type(header)

    assert parsed is not None
    assert (parsed.is_json, parsed.is_text) == (is_json, is_text)


def test_the_default_is_bytes() -> None:
    assert not OCTET_STREAM.is_text
