"""What a reader makes of good streams and of streams that were tampered with on their way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream.client import EventId, Follower, IntegrityError, ReconnectPolicy
from millstream.types import Outcome
from tests.reference.native import NativeStream, completed
from tests.unit.client.reading import AT_ONCE, follower, read, read_text

SIZES = [0, 1, 7, 8, 9, 16, 17]
NO_RESTART = ReconnectPolicy(base_seconds=0.0, max_restarts=0)

TEXTS = {
    **{f"{size} tokens": [f"t{n} " for n in range(size)] for size in SIZES},
    "tokens of nothing": [""] * 9,
    "line ends": ["a\n", "\nb", "\r\n", "\u2028", "\n\n", "c\r", " ", "\x85", "\x0b"],
    "many bytes": ["ü" * 200, "🜚" * 5000],
    "parts of one character": ["👩", "\u200d", "👩", "\u200d", "👧", "e", "\u0301", "!", "?"],
}


@pytest.mark.parametrize("texts", TEXTS.values(), ids=TEXTS)
def test_a_whole_stream_passes_all_checks(texts: list[str]) -> None:
    stream, reading = completed(texts), follower()

    assert read_text(reading, stream) == stream.text == reading.transcript.text()

    assert reading.transcript.outcome is Outcome.COMPLETED
    assert reading.transcript.checks is not None
    assert reading.transcript.checks.records == len(texts)
    assert reading.last_event_id == stream.id(len(stream.records))
    assert (reading.connections, reading.restarts) == (1, 0)


@pytest.mark.parametrize("size", SIZES)
def test_a_stream_without_checks_is_read_if_none_are_asked_for(size: int) -> None:
    stream = completed([f"t{n}" for n in range(size)], integrity=False)
    reading = follower()
    with pytest.raises(IntegrityError, match="has no checksum"):
        read_text(reading, stream)

    reading = Follower(stream_id="s1", policy=AT_ONCE)
    assert read_text(reading, stream) == stream.text
    assert reading.transcript.checks is None


Tamper = Callable[[list[bytes]], list[bytes]]

STREAM = completed([f"t{n} " for n in range(17)])
FRAMES = [frame.data for frame in STREAM.frames()]


def swapped(at: int) -> Tamper:
    return lambda frames: [*frames[:at], frames[at + 1], frames[at], *frames[at + 2 :]]


def dropped(at: int) -> Tamper:
    return lambda frames: frames[:at] + frames[at + 1 :]


def doubled(at: int) -> Tamper:
    return lambda frames: frames[: at + 1] + frames[at:]


def damaged(at: int, old: bytes, new: bytes) -> Tamper:
    assert old in FRAMES[at]
    return lambda frames: [*frames[:at], frames[at].replace(old, new, 1), *frames[at + 1 :]]


def exchanged_texts(frames: list[bytes]) -> list[bytes]:
    one, other = frames[1], frames[2]
    return [
        frames[0],
        one.replace(b"t1 ", b"t2 "),
        other.replace(b"t2 ", b"t1 "),
        *frames[3:],
    ]


LAST = len(FRAMES) - 1
LEAF = next(at for at, frame in enumerate(FRAMES) if b"event: leaf" in frame)
TAMPERED: dict[str, Tamper] = (
    {f"swapped {at}": swapped(at) for at in range(LAST)}
    | {f"dropped {at}": dropped(at) for at in range(LAST)}
    | {f"doubled {at}": doubled(at) for at in range(LAST)}
    | {
        "texts exchanged": exchanged_texts,
        "text damaged": damaged(3, b"t3", b"t\xe4"),
        "text longer": damaged(3, b"t3", b"t33"),
        "not UTF-8": damaged(3, b"t3", b"\xff\xfe"),
        "not JSON": damaged(3, b'{"choice"', b'{choice"'),
        "not a token": damaged(3, b'"text"', b'"test"'),
        "token called otherwise": damaged(3, b"event: token", b"event: tokem"),
        "checksum damaged": damaged(3, b"id: 1-4-", b"id: 1-4-f"),
        "checksum gone": lambda frames: [
            frames[0][:7] + frames[0][frames[0].index(b"\nevent") :],
            *frames[1:],
        ],
        "seq damaged": damaged(3, b"id: 1-4-", b"id: 1-5-"),
        "epoch of the past": damaged(3, b"id: 1-4-", b"id: 0-4-"),
        "id gone": damaged(3, b"id: ", b"ib: "),
        "digest damaged": damaged(LEAF, b'"digest":"', b'"digest":"0'),
        "leaf of another place": damaged(LEAF, b'"index":0', b'"index":1'),
        "leaf of another record": damaged(LEAF, b'"last":"1-8"', b'"last":"1-7"'),
        "end called otherwise": damaged(LAST, b"event: done", b"event: dome"),
        "outcome unknown": damaged(LAST, b"completed", b"complete"),
        "count damaged": damaged(LAST, b'"records":17', b'"records":16'),
        "size damaged": damaged(LAST, b'"bytes":', b'"bytes":1'),
        "root damaged": damaged(LAST, b'"root":"', b'"root":"0'),
        "checks gone": damaged(LAST, b',"checks":', b',"chicks":'),
    }
)


@pytest.mark.parametrize("tamper", TAMPERED.values(), ids=TAMPERED)
def test_every_change_on_the_way_is_seen(tamper: Tamper) -> None:
    reading = follower(policy=NO_RESTART)
    body = b"".join(tamper(list(FRAMES)))

    with pytest.raises(IntegrityError):
        read_text(reading, STREAM, lambda _connection, _body: body)

    assert STREAM.text.startswith(reading.transcript.text())
    assert reading.transcript.outcome is None


@pytest.mark.parametrize("tamper", TAMPERED.values(), ids=TAMPERED)
def test_a_change_that_comes_once_is_repaired_from_the_last_good_leaf(tamper: Tamper) -> None:
    reading = follower()
    body = b"".join(tamper(list(FRAMES)))

    text = read_text(reading, STREAM, lambda nth, right: body if nth == 1 else right)

    assert text == STREAM.text
    assert reading.transcript.checks is not None
    assert reading.restarts >= 1


def test_a_dropped_end_is_a_cut_and_not_a_change() -> None:
    reading = follower(policy=NO_RESTART)
    body = b"".join(FRAMES[:-1])
    assert read_text(reading, STREAM, lambda nth, right: body if nth == 1 else right) == STREAM.text
    assert (reading.connections, reading.restarts) == (2, 0)


def test_a_restart_reads_no_more_than_the_open_leaf_again() -> None:
    reading, bodies = follower(), list[bytes]()

    def wire(nth: int, body: bytes) -> bytes:
        bodies.append(body)
        return body.replace(b"t12 ", b"t21 ") if nth == 1 else body

    assert read_text(reading, STREAM, wire) == STREAM.text
    assert bodies[1].startswith(FRAMES[LEAF + 1])


def test_the_same_damage_again_and_again_ends_the_read_with_what_was_good() -> None:
    reading = follower()
    given: list[str] = []

    def damaging(_nth: int, body: bytes) -> bytes:
        return body.replace(b"t12 ", b"t21 ")

    with pytest.raises(IntegrityError, match="record 13") as error:  # noqa: PT012 - what came counts
        for piece in read(reading, STREAM, damaging):
            given.append(piece.text)

    assert given == [f"t{n} " for n in range(12)]
    assert error.value.last_event_id == STREAM.id(12)
    assert reading.restarts == AT_ONCE.max_restarts + 1


@pytest.mark.parametrize(
    "texts",
    [
        ["u"] * 17,
        [*(f"t{n} " for n in range(8)), *["u"] * 9],
        ["t0 "],
        [f"t{n} " for n in range(8)],
    ],
    ids=["from the start", "after the leaf", "shorter", "shorter, beginning the same"],
)
def test_another_text_behind_the_same_ids_is_not_taken_for_the_one_given_out(
    texts: list[str],
) -> None:
    other, reading = completed(texts), follower()

    def wire(nth: int, _body: bytes) -> bytes:
        return b"".join(FRAMES[:13]) if nth == 1 else restarted(other, reading)

    with pytest.raises(IntegrityError):
        read_text(reading, STREAM, wire)
    assert reading.transcript.text() == "".join(f"t{n} " for n in range(12))
    assert reading.transcript.outcome is None


def restarted(stream: NativeStream, reading: Follower) -> bytes:
    """What a server sends that has this text behind the reader's ids."""
    assert reading.last_event_id is not None
    at = EventId.parse(reading.last_event_id)
    return b"".join(frame.data for frame in stream.frames(stream.restart(at.seq, at.crc)))


@pytest.mark.parametrize("first", [8, 9, 12])
def test_a_server_that_begins_again_at_its_last_leaf_is_followed(first: int) -> None:
    # So it does when the id was damaged on its way back. After 8 frames the leaf was cut off.
    reading = follower()

    def wire(nth: int, body: bytes) -> bytes:
        if nth == 1:
            return b"".join(FRAMES[:first])
        again = b"".join(frame.data for frame in STREAM.frames(8))
        return body[: body.index(b"t12 ")] if nth == 2 else again

    assert read_text(reading, STREAM, wire) == STREAM.text
    assert (reading.connections, reading.restarts) == (3, 0)
