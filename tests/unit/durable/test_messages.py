from __future__ import annotations

import pytest

from millstream.durable.messages import split_messages


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        (b'{"a": 1}', [b'{"a": 1}']),
        (b' [1, "x" ,null]\n', [b"1", b'"x"', b"null"]),
        (b"[[1,2],[3]]", [b"[1,2]", b"[3]"]),
        (b"[[[1]]]", [b"[[1]]"]),
        (b"[]", []),
        (b"1e400", [b"1e400"]),
        (b"12345678901234567890.10", [b"12345678901234567890.10"]),
    ],
)
def test_one_level_of_an_array_is_flattened_and_nothing_is_rewritten(
    body: bytes, messages: list[bytes]
) -> None:
    assert split_messages(body) == messages


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"[1,]",
        b"[01]",
        b"NaN",
        b"1 2",
        b"[1] 2",
        b'{"a" 1}',
        b'"a\nb"',
        b"\xef\xbb\xbf1",
    ],
)
def test_what_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        split_messages(body)


@pytest.mark.parametrize("body", [b'"\xff"', b'["ok", "\xc3"]'])
def test_what_is_not_utf_8_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="not UTF-8"):
        split_messages(body)


def test_a_body_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        split_messages(b"[" * 100_000 + b"]" * 100_000)
