"""Exactly one `Authorization: Bearer ...`, whatever else the header may hold."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.errors import NotAuthenticated
from millstream.identity.bearer import MAX_BYTES, NO_CREDENTIAL, bearer_of


def read(*values: bytes) -> str:
    return bearer_of([(b"host", b"a"), *((b"authorization", value) for value in values)])


def reason(*values: bytes) -> str:
    with pytest.raises(NotAuthenticated) as raised:
        read(*values)
    assert not any(value in str(raised.value).encode() for value in values if len(value) > 8)
    return raised.value.reason


@pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER", b"bEaReR"])
def test_the_schemes_letters_may_be_large_or_small(scheme: bytes) -> None:
    assert read(scheme + b" abc.DEF-_~+/09==") == "abc.DEF-_~+/09=="


def test_several_spaces_are_one() -> None:
    assert read(b"Bearer   abc") == "abc"


def test_without_the_header_there_is_no_credential() -> None:
    assert reason() == NO_CREDENTIAL


def test_two_headers_are_one_too_many_even_if_they_agree() -> None:
    assert reason(b"Bearer abcdefghij", b"Bearer abcdefghij") == "several"
    assert reason(b"Bearer abcdefghij", b"") == "several"


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b" ",
        b"Bearer",
        b"Bearer ",
        b"Bearer\tabc",
        b"Bearer abc def",
        b"Bearer abc, Bearer def",
        b"Bearer  =",
        b"Bearer abc=def",
        b"Bearer a\x00b",
        b"Bearer a\nb",
        b"Bearer abc\n",
        b"Bearer \xc3\xa9",
        b"Bearer \xff\xfe",
        b"Bearerabc",
        b"Basic dXNlcjpwYXNz",
        b"abc",
        b"\xff" * 100,
        b"Bearer " + "а".encode(),  # a Cyrillic letter
    ],
)
def test_another_value_is_no_credential(value: bytes) -> None:
    assert reason(value) == "not_bearer"


def test_a_long_value_is_not_looked_at() -> None:
    assert read(b"Bearer " + b"x" * (MAX_BYTES - 7)) == "x" * (MAX_BYTES - 7)
    assert reason(b"Bearer " + b"x" * (MAX_BYTES - 6)) == "too_long"
    assert reason(b"Bearer " + b" " * 100 * 1024) == "too_long"


@given(st.lists(st.binary(max_size=300), max_size=3))
@example([b"Bearer " + b"=" * 300])
@example([b"Bearer " + b" " * 16_000])
@example([b"Bearer " + b"a" * 16_000 + b"\x00"])
def test_any_bytes_are_a_credential_or_a_refusal(values: list[bytes]) -> None:
    found, why = None, ""
    try:
        found = read(*values)
    except NotAuthenticated as error:
        why = error.reason
    if found is None:
        assert why in {"missing", "several", "too_long", "not_bearer"}
    else:
        assert found.isascii()
        assert values == [values[0]]
        assert values[0].endswith(found.encode())


@given(st.from_regex(rb"[Bb]earer {1,3}[A-Za-z0-9._~+/-]{1,200}={0,2}", fullmatch=True))
def test_every_token_of_the_grammar_is_read_whole(value: bytes) -> None:
    assert read(value) == value.split()[1].decode()
