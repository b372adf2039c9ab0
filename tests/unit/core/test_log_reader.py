"""Readers: what they are given, where they stop, how they wait."""

from __future__ import annotations

import gc
import os
import select
import weakref

import pytest

from millstream import _core
from millstream.types import Kind


def encoder(dialect: str = "native") -> _core.Encoder:
    return _core.Encoder(
        dialect=dialect, framing="ndjson", chunk_id="c", model="m", created=1, epoch=None
    )


def filled(*texts: str, max_records: int = 100) -> _core.Log:
    log = _core.Log(max_records=max_records)
    for text in texts:
        log.append(Kind.TOKEN, text, token_count=1, time_ns=1)
    return log


def is_readable(notifier: _core.Notifier) -> bool:
    poll = select.poll()
    poll.register(notifier, select.POLLIN)
    return bool(poll.poll(0))


def test_one_take_gives_every_due_frame_once() -> None:
    log = filled("a", "b")
    reader = _core.Reader(log, encoder())
    assert reader.take().count(b"\n") == 2
    assert reader.take() == b""
    log.append(Kind.TOKEN, "c", time_ns=1)
    log.close("completed", time_ns=1)
    assert not reader.finished
    assert reader.take().count(b"\n") == 2
    assert (reader.finished, reader.cursor, reader.take()) == (True, 4, b"")


def test_take_ends_with_the_frame_that_reaches_the_limit() -> None:
    reader = _core.Reader(filled(*"abc"), encoder())
    first = reader.take(1)
    assert first.count(b"\n") == 1
    assert reader.cursor == 1
    assert reader.take(len(first) + 1).count(b"\n") == 2


def test_records_without_a_frame_are_passed_over() -> None:
    log = filled()
    log.append(Kind.USAGE, "{}", time_ns=1)
    reader = _core.Reader(log, encoder("chat"))
    notifier = _core.Notifier()
    assert not reader.park(object(), notifier)
    assert (reader.take(), reader.cursor) == (b"", 1)
    assert reader.park(object(), notifier)


def test_readers_do_not_disturb_each_other() -> None:
    log = filled("a", "b", "c")
    shared = encoder("chat")
    early, late = _core.Reader(log, shared), _core.Reader(log, shared, after=2)
    assert early.take() == _core.Reader(log, shared).take()
    assert b'"c"' in late.take()
    # Only a reader from the start introduces the speaker.
    assert b"assistant" not in _core.Reader(log, shared, after=2).take()
    assert b"assistant" in _core.Reader(log, shared).take()


def test_a_cursor_ahead_of_the_tail_is_refused() -> None:
    with pytest.raises(ValueError, match="cursor 3 is ahead of the tail 2"):
        _core.Reader(filled("a", "b"), encoder(), after=3)


def test_a_reader_at_the_end_of_a_closed_stream_is_finished_at_once() -> (
    None
):  # resumable-stream#44
    log = filled("a")
    log.close("completed", time_ns=1)
    reader = _core.Reader(log, encoder(), after=2)
    assert reader.finished
    assert not reader.park(object(), _core.Notifier())


def test_an_overrun_reader_is_told_once_and_goes_on() -> None:
    log = filled(*"abcdef", max_records=2)
    reader = _core.Reader(log, encoder(), after=1)
    notifier = _core.Notifier()
    assert (reader.take(), reader.gap, reader.cursor) == (b"", (5, 6), 1)
    assert reader.take() == b""
    assert not reader.park(object(), notifier), "a gap is something to deal with"
    assert reader.skip_gap()
    assert not reader.skip_gap()
    assert reader.cursor == 4
    assert reader.take().count(b"\n") == 2
    assert not reader.gap


def test_what_is_dropped_while_a_gap_is_told_makes_another_gap() -> None:
    log = filled(*"abcd", max_records=2)
    reader = _core.Reader(log, encoder())
    reader.take()
    assert reader.gap == (3, 4)
    log.append(Kind.TOKEN, "e", time_ns=1)
    reader.skip_gap()
    assert (reader.take(), reader.gap, reader.cursor) == (b"", (4, 5), 2)


def test_a_record_larger_than_the_log_is_a_gap_not_a_silence() -> None:
    log = _core.Log(max_bytes=4)
    reader = _core.Reader(log, encoder())
    log.append(Kind.TOKEN, "12345", time_ns=1)
    assert (reader.take(), reader.gap) == (b"", (2, 1))
    reader.skip_gap()
    log.close("completed", time_ns=1)
    assert b"completed" in reader.take()


def test_a_parked_waiter_is_handed_out_once() -> None:
    log, notifier = filled(), _core.Notifier()
    reader = _core.Reader(log, encoder())
    assert reader.park("waiter", notifier)
    assert log.waiting == 1
    assert not is_readable(notifier)
    log.append(Kind.TOKEN, "a", time_ns=1)
    log.append(Kind.TOKEN, "b", time_ns=1)
    assert is_readable(notifier)
    assert notifier.ready() == ["waiter"]
    assert notifier.ready() == []
    assert not is_readable(notifier)


def test_many_wakes_are_one_signal() -> None:
    notifier = _core.Notifier()
    logs = [filled() for _ in range(50)]
    readers = [_core.Reader(log, encoder()) for log in logs]
    for number, reader in enumerate(readers):
        reader.park(number, notifier)
    for log in logs:
        log.append(Kind.TOKEN, "a", time_ns=1)
    # An eventfd holds the number of its writes.
    assert int.from_bytes(os.read(notifier.fileno(), 8), "little") == 1
    assert sorted(map(str, notifier.ready())) == sorted(map(str, range(50)))


def test_closing_wakes_and_ends_the_waiting() -> None:  # resumable-stream#47
    log, notifier = filled(), _core.Notifier()
    reader = _core.Reader(log, encoder())
    reader.park("waiter", notifier)
    log.close("cancelled", time_ns=1)
    assert notifier.ready() == ["waiter"]
    reader.take()
    assert reader.finished
    assert not reader.park("again", notifier)


def test_a_second_park_replaces_the_first() -> None:
    log, notifier = filled(), _core.Notifier()
    reader = _core.Reader(log, encoder())
    assert reader.park("first", notifier)
    assert reader.park("second", notifier)
    assert log.waiting == 1
    log.append(Kind.TOKEN, "a", time_ns=1)
    assert notifier.ready() == ["second"]


def test_an_unparked_or_collected_reader_leaves_nothing_behind() -> None:
    log, notifier = filled(), _core.Notifier()
    reader, other = (_core.Reader(log, encoder()) for _ in range(2))
    reader.park("gone", notifier)
    other.park("gone too", notifier)
    reader.unpark()
    reader.unpark()
    del other
    gc.collect()
    assert log.waiting == 0
    log.append(Kind.TOKEN, "a", time_ns=1)
    assert notifier.ready() == []


def test_each_waiter_goes_to_its_own_notifier() -> None:
    log, here, there = filled(), _core.Notifier(), _core.Notifier()
    first, second = (_core.Reader(log, encoder()) for _ in range(2))
    first.park("here", here)
    second.park("there", there)
    log.append(Kind.TOKEN, "a", time_ns=1)
    assert (here.ready(), there.ready()) == (["here"], ["there"])


class ComesBack:
    """A waiter whose finaliser uses the log and the reader that held it."""

    def __init__(self, log: _core.Log, reader: _core.Reader) -> None:
        self.log, self.reader = log, reader
        self.seen: list[tuple[int, int]] = []
        weakref.finalize(self, self.look, log, self.seen)

    @staticmethod
    def look(log: _core.Log, seen: list[tuple[int, int]]) -> None:
        seen.append((log.tail, log.waiting))


@pytest.mark.parametrize("way", ["unpark", "replace", "refuse"])
def test_a_finaliser_that_comes_back_finds_every_lock_free(way: str) -> None:
    log, notifier = filled(), _core.Notifier()
    reader = _core.Reader(log, encoder())
    waiter = ComesBack(log, _core.Reader(log, encoder()))
    seen = waiter.seen
    if way == "refuse":
        log.append(Kind.TOKEN, "a", time_ns=1)
    reader.park(waiter, notifier)
    del waiter
    if way == "unpark":
        reader.unpark()
    elif way == "replace":
        reader.park("other", notifier)
    assert len(seen) == 1
