"""Messages over a byte stream."""

from __future__ import annotations

import msgspec
import pytest

from millstream.engines.base import EngineStats
from millstream.engines.torch.protocol import (
    MAX_MESSAGE_BYTES,
    Abort,
    FromEngine,
    FromWorker,
    Hello,
    MessageDecoder,
    ProtocolError,
    Stats,
    StatsRequest,
    Submit,
    encode,
)
from millstream.types import SamplingParams

MESSAGES: list[FromWorker] = [
    Hello(1, 42),
    Submit(7, [1, 2, 3], SamplingParams(max_tokens=5, stop=("a", "b"), seed=9)),
    Abort(7),
    StatsRequest(3),
]


def decoder() -> MessageDecoder[FromWorker]:
    return MessageDecoder(FromWorker)


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, 1000])
def test_messages_arrive_whole_whatever_the_pieces(piece: int) -> None:
    data = b"".join(encode(message) for message in MESSAGES)
    cut = decoder()
    found = [
        message
        for start in range(0, len(data), piece)
        for message in cut.feed(data[start : start + piece])
    ]
    assert found == MESSAGES


def test_an_incomplete_message_gives_nothing_yet() -> None:
    cut = decoder()
    data = encode(MESSAGES[1])
    assert list(cut.feed(data[:-1])) == []
    assert list(cut.feed(data[-1:])) == [MESSAGES[1]]


def test_a_length_beyond_the_limit_is_refused_before_its_body_is_read() -> None:
    with pytest.raises(ProtocolError, match="a message of"):
        list(decoder().feed((MAX_MESSAGE_BYTES + 1).to_bytes(4, "big")))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"type": "unheard of"}),
        msgspec.msgpack.encode({"type": "abort"}),
        msgspec.msgpack.encode({"type": "abort", "request": "7"}),
        msgspec.msgpack.encode([1]),
    ],
)
def test_what_is_no_message_of_ours_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(decoder().feed(len(body).to_bytes(4, "big") + body))


def test_each_side_refuses_the_messages_of_its_own() -> None:
    cut: MessageDecoder[FromEngine] = MessageDecoder(FromEngine)
    with pytest.raises(ProtocolError):
        list(cut.feed(encode(Abort(1))))


def test_messages_before_a_broken_one_are_still_given() -> None:
    feed = decoder().feed(encode(Abort(1)) + b"\x00\x00\x00\x01\xc1")
    assert next(feed) == Abort(1)
    with pytest.raises(ProtocolError):
        next(feed)


def test_stats_carry_every_field_over() -> None:
    numbers = dict(zip(EngineStats.__struct_fields__, range(2, 12), strict=True))
    stats = Stats(1, EngineStats(**numbers))
    cut: MessageDecoder[FromEngine] = MessageDecoder(FromEngine)
    assert list(cut.feed(encode(stats))) == [stats]
