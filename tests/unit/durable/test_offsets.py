from __future__ import annotations

import pytest

from millstream.durable.offsets import Offset, format_offset, parse_offset

ID = "00ab12cd"


def test_an_offset_comes_back_as_it_was_given() -> None:
    assert parse_offset(format_offset(7, ID)) == Offset(7, ID)


def test_offsets_sort_as_their_positions() -> None:
    positions = [0, 1, 9, 10, 99, 1 << 40, 10**16 - 1]

    tokens = [format_offset(position, ID) for position in positions]

    assert sorted(tokens) == tokens
    assert all(set(token).isdisjoint(",&=?/") for token in tokens)


def test_the_words_of_the_protocol_are_known() -> None:
    assert parse_offset("-1") == Offset(0)
    assert parse_offset("now") == Offset(None)


@pytest.mark.parametrize(
    "token", ["", "0", "7_" + ID, "-2", "NOW", f"{7:016d}", f"{7:016d}_xyz", f"٧{7:015d}_{ID}"]
)
def test_what_the_server_never_gave_out_is_none(token: str) -> None:
    assert parse_offset(token) is None
