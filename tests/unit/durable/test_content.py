from __future__ import annotations

import json

import pytest

from millstream.durable.content import ByteContent, Extract, JsonContent, cost


def test_bytes_are_read_from_anywhere() -> None:
    content = ByteContent()
    content.append([b"hello "])
    content.append([b"world"])

    assert content.tail == 11
    assert content.read(0, 100) == Extract(b"hello world", 11)
    assert content.read(4, 3) == Extract(b"o w", 7)
    assert content.read(11, 100) == Extract(b"", 11)


def test_messages_are_read_as_an_array_of_whole_ones() -> None:
    content = JsonContent()
    content.append([b'{"a":1}', b"[2, 3]"])
    content.append([b'"x"'])

    assert content.tail == 3
    assert content.read(0, 100) == Extract(b'[{"a":1},[2, 3],"x"]', 3)
    assert content.read(1, 100) == Extract(b'[[2, 3],"x"]', 3)
    assert content.read(3, 100) == Extract(b"[]", 3)


@pytest.mark.parametrize("max_bytes", [1, 8, 15, 16, 1000])
def test_reads_of_any_size_put_together_give_every_message_once(max_bytes: int) -> None:
    content = JsonContent()
    content.append([json.dumps("x" * length).encode() for length in range(12)])

    found, position = [], 0
    while position < content.tail:
        extract = content.read(position, max_bytes)
        assert extract.end > position
        found += json.loads(extract.data)
        position = extract.end

    assert found == ["x" * length for length in range(12)]


def test_a_read_stays_within_its_size_unless_one_message_does_not() -> None:
    content = JsonContent()
    content.append([b"1"] * 10)

    assert content.read(0, 6).data == b"[1,1,1]"
    assert content.read(0, 1).data == b"[1]"


def test_a_message_costs_its_place_in_the_index_too() -> None:
    assert cost([b"1", b"22"], messages=True) == 3 + 2 * 9
    assert cost([b"1", b"22"], messages=False) == 3
