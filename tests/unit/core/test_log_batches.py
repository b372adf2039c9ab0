"""Batches out of a log and into its mirror: what they hold, what a mirror refuses."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from millstream import _core
from millstream.types import Kind

STREAM_ID = b"strm-1"


def filled(*texts: str, **options: Any) -> _core.Log:
    log = _core.Log(**options)
    for number, text in enumerate(texts):
        log.append(Kind.TOKEN, text, token_count=1, time_ns=1_000 + number)
    return log


def packed(log: _core.Log, after: int = 0, **bounds: int) -> bytes:
    batch = log.pack(after, **bounds)
    assert batch is not None
    return batch[0]


def seal(payload: bytes) -> bytes:
    return payload + zlib.crc32(payload).to_bytes(4, "little")


def test_a_batch_spelled_out() -> None:
    log = _core.Log()
    log.append(Kind.TOKEN, "Hé", token_count=1, time_ns=5)
    log.append(Kind.FINISH, "stop", choice=300, token_count=0, time_ns=4)
    first = b"\x19\x00\x03H\xc3\xa9"  # token | same place | one token, 0 ns later
    second = b"\x02\x00\xac\x02\x00\x01\x04stop"  # finish, branch 0, choice 300, 1 ns earlier
    payload = b"\x01\x00\x01\x05\x00\x02" + first + second
    assert packed(log) == seal(payload)


def test_packing_says_what_is_in_the_batch_and_when_nothing_is_due() -> None:
    log = filled(*"abcde")
    batch = log.pack(1, max_records=3)
    assert batch is not None
    assert batch[1:] == (2, 4)
    assert _core.Log.first_seq_of(batch[0]) == 2
    assert log.pack(5) is None
    assert _core.Log().pack(0) is None
    with pytest.raises(ValueError, match="cursor 6 is ahead of the tail 5"):
        log.pack(6)


def test_a_batch_is_bounded_by_bytes_unless_its_first_record_is_larger() -> None:
    log = filled("a" * 100, "b" * 100, "c" * 100, "d")
    assert [log.pack(0, max_bytes=250), log.pack(0, max_bytes=1)] == [
        (packed(log, max_records=2), 1, 2),
        (packed(log, max_records=1), 1, 1),
    ]


def test_an_overrun_packer_goes_on_at_the_oldest_record() -> None:
    log = filled(*"abcdef", max_records=2)
    batch = log.pack(1)
    assert batch is not None
    assert batch[1:] == (5, 6)


def test_records_that_were_dropped_at_once_leave_nothing_to_pack() -> None:
    assert filled("too long", max_bytes=3).pack(0) is None


def test_a_mirror_wakes_its_readers_and_ends_with_the_log() -> None:
    log, mirror, notifier = filled("a"), _core.Log(), _core.Notifier()
    encoder = _core.Encoder(dialect="native", framing="ndjson", chunk_id="c", model="m", created=1)
    reader = _core.Reader(mirror, encoder)
    assert reader.park("waiter", notifier)
    assert mirror.unpack(packed(log)) == 1
    assert notifier.ready() == ["waiter"]
    assert b'"text":"a"' in reader.take()
    assert reader.park("again", notifier)
    assert mirror.unpack(packed(log)) == 1, "nothing new"
    assert notifier.ready() == []
    log.close("length", time_ns=9)
    assert mirror.unpack(packed(log, 1)) == 2
    assert (mirror.closed, mirror.outcome, notifier.ready()) == (True, "length", ["again"])
    assert b"length" in reader.take()
    assert reader.finished


def test_what_overlaps_is_taken_once() -> None:
    log, mirror = filled(*"abcd"), _core.Log()
    mirror.unpack(packed(log, max_records=3))
    assert mirror.unpack(packed(log, 1)) == 4
    assert mirror.text() == "abcd"


def test_a_mirror_without_its_beginning_has_a_gap_there() -> None:
    mirror = _core.Log(first_seq=3)
    encoder = _core.Encoder(dialect="native", framing="ndjson", chunk_id="c", model="m", created=1)
    reader = _core.Reader(mirror, encoder)
    assert (mirror.oldest, mirror.tail, reader.take(), reader.gap) == (3, 2, b"", (3, 2))
    mirror.unpack(packed(filled(*"abcd"), 2))
    assert (mirror.oldest, mirror.tail, mirror.snapshot()) == (3, 4, [(0, 0, 2, "cd")])
    assert reader.skip_gap()
    assert reader.take().count(b"\n") == 2
    with pytest.raises(ValueError, match="first 2 bytes"):
        mirror.text()


def test_an_empty_mirror_knows_no_checks_until_a_batch_tells_them() -> None:
    log = filled(*"abcdefghijk", integrity=STREAM_ID)
    mirror = _core.Log(first_seq=10, integrity=STREAM_ID)
    assert (mirror.checks(), mirror.crc_at(9), mirror.leaves()) == (None, None, [])
    mirror.unpack(packed(log, 9))
    assert mirror.checks() == log.checks()
    assert [mirror.crc_at(seq) for seq in (8, 9, 11)] == [None, log.crc_at(9), log.crc_at(11)]


def test_what_is_known_before_a_batch_comes_with_it() -> None:
    log = _core.Log(branches=2)
    log.append(Kind.TOKEN, "x", branch=1, token_count=3, time_ns=10)
    log.append(Kind.FINISH, "length", branch=1, time_ns=11)
    log.append(Kind.USAGE, '{"a":1}', branch=1, time_ns=12)
    log.append(Kind.BRANCH_END, "length", branch=1, time_ns=13)
    log.append(Kind.TOKEN, "a", token_count=1, time_ns=14)
    log.append(Kind.USAGE, "{}", time_ns=15)
    mirror = _core.Log.mirror(packed(log, 4, max_records=1), branches=2)
    assert (mirror.finish_reason(branch=1), mirror.usage_of(1)) == ("length", '{"a":1}')
    assert (mirror.outcome_of(1), mirror.token_count_of(1)) == ("length", 3)
    assert (mirror.first_token_ns_of(1), mirror.last_token_ns_of(1)) == (10, 10)
    assert mirror.usage is None, "it comes after the batch"
    assert (mirror.token_count, mirror.first_token_ns, mirror.last_token_ns) == (4, 10, 14)


def test_a_mirror_can_be_mirrored() -> None:
    log = filled(*"abcdefghijklmnopq", integrity=STREAM_ID)
    middle = _core.Log.mirror(packed(log, 5), integrity=STREAM_ID)
    last = _core.Log.mirror(packed(middle, 11), integrity=STREAM_ID)
    assert last.checks() == log.checks()
    assert last.snapshot() == [(0, 0, 11, "lmnopq")]
    assert last.token_count == 17


def test_a_hole_is_refused() -> None:
    mirror = filled("a", "b")
    with pytest.raises(ValueError, match="starts at 4, the mirror ends at 2"):
        mirror.unpack(packed(filled(*"abcde"), 3))
    assert mirror.tail == 2


def test_a_mirror_of_other_text_is_refused() -> None:
    log, mirror = (filled(*texts, integrity=STREAM_ID) for texts in ("abc", "ax"))
    with pytest.raises(ValueError, match="before record 3 differ"):
        mirror.unpack(packed(log, 2))
    assert mirror.tail == 2


def test_a_mirror_that_has_ended_takes_nothing_more() -> None:
    log, mirror = filled(*"abc"), filled("a")
    mirror.close("shed", time_ns=1)
    assert mirror.unpack(packed(log, max_records=2)) == 2, "nothing new"
    with pytest.raises(ValueError, match="ended before the batch"):
        mirror.unpack(packed(log))


def test_a_branch_that_the_mirror_does_not_have_is_refused() -> None:
    log = _core.Log(branches=2)
    log.append(Kind.TOKEN, "a", time_ns=1)
    log.append(Kind.TOKEN, "b", branch=1, time_ns=1)
    with pytest.raises(ValueError, match="records of branch 1"):
        _core.Log().unpack(packed(log))
    log.append(Kind.TOKEN, "c", time_ns=1)
    with pytest.raises(ValueError, match="records of branch 1"):
        _core.Log.mirror(packed(log, 2))


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"\x02\x00", "version 2"),
        (b"\x01\x02", "unknown form"),
        (b"\x01\x00\x00", "start at 1"),
        (b"\x01\x00\x01\x00\x00\x00", "count of records"),
        (b"\x01\x00\x01\x00\x00\xff\xff\xff\xff\x0f", "count of records"),
        (b"\x01\x00" + b"\xff" * 9 + b"\x01", "too large"),
        (b"\x01\x00\x01\x00\x00\x01\x18\x00\x00", "unknown kind"),
        (b"\x01\x00\x01\x00\x00\x01\x39\x00\x00", "unknown kind"),
        (b"\x01\x00\x01\x00\x00\x01\x19\x00\x01\xff", "not UTF-8"),
        (b"\x01\x00\x01\x00\x00\x01\x19\x00\x09abc", "too early"),
        (b"\x01\x00\x01\x00\x00\x01\x19\x00\x00\x00", "bytes follow"),
        (b"\x01\x00\x01\x00\x00\x02\x1d\x00\x00\x19\x00\x00", "records follow the terminal"),
        (b"\x01\x00\x01\x00\x01\x00\x00\x00\x00\x01\x19\x00\x00", "before the first record"),
        (b"\x01\x01\x01\x00\x00\x01", "too large"),
        (b"\x01\x01\x02\x00\x00\x00\x01\x00\x00\x00\x00\x01\x19\x00\x00", "checks of no text"),
        (b"", "too early"),
    ],
)
def test_what_is_no_batch_is_refused(payload: bytes, why: str) -> None:
    mirror = _core.Log(integrity=STREAM_ID)
    with pytest.raises(ValueError, match=why):
        mirror.unpack(seal(payload))
    assert mirror.tail == 0


def test_damage_on_the_way_is_seen() -> None:
    batch = packed(filled(*"abc"))
    damaged = batch.replace(b"b", b"x")
    for call in (_core.Log().unpack, _core.Log.first_seq_of, _core.Log.mirror):
        with pytest.raises(ValueError, match="CRC"):
            call(damaged)
        with pytest.raises(ValueError, match="too early"):
            call(b"abc")


def test_batches_are_small() -> None:
    texts = [" word"] * 1000
    log = _core.Log()
    for number, text in enumerate(texts):
        log.append(Kind.TOKEN, text, token_count=1, time_ns=10**18 + number * 20_000_000)
    size = after = 0
    while (batch := log.pack(after, max_records=8)) is not None:
        size += len(batch[0])
        after = batch[2]
    assert size < 17_000, "a thousand tokens in leaves of 8"
