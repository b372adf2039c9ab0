"""What a client that comes back gets to read."""

from __future__ import annotations

import zlib

import pytest

from millstream._core import Log
from millstream.store import BranchDescriptor, Descriptor, Recording
from millstream.streams.event_id import EventId
from millstream.streams.reading import Ahead, Finished, Ready, Trimmed, Unknown, reader_for
from millstream.types import Failure, Kind, Outcome


def recording(
    tokens: int = 0,
    *,
    ended: Outcome | None = None,
    integrity: bool = False,
    max_records: int = 1000,
    epoch: int = 1,
    error: str | None = None,
) -> Recording:
    """A stream of numbered tokens."""
    descriptor = Descriptor(
        id="s",
        epoch=epoch,
        route="r",
        dialect="native",
        created=7,
        branches=(BranchDescriptor(model="m", chunk_id="c"),),
        resumable=True,
        integrity=integrity,
    )
    log = Log(max_records=max_records, integrity=b"s" if integrity else None)
    for number in range(1, tokens + 1):
        log.append(Kind.TOKEN, f"t{number}", token_count=1, time_ns=number)
    if error is not None:
        failure = Failure("gone", "server_error", error)
        log.append(Kind.ERROR, failure.to_json(), time_ns=tokens + 1)
    if ended is not None:
        log.close(ended, time_ns=tokens + 2)
    return Recording(descriptor, log)


def texts(answer: object) -> list[str]:
    """The ids of the records that a reader gets."""
    assert isinstance(answer, Ready)
    lines = answer.reader.take(1 << 20).decode().splitlines()
    return [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]


def crc_of(tokens: int) -> int:
    crc = 0
    for number in range(1, tokens + 1):
        text = f"t{number}".encode()
        crc = zlib.crc32(bytes([len(text)]) + text, crc)
    return crc


def test_no_stream_is_an_answer_too() -> None:
    assert reader_for(None, None) == Unknown()


@pytest.mark.parametrize("after", range(6))
def test_reading_goes_on_right_after_the_cursor(after: int) -> None:
    answer = reader_for(recording(5), EventId(1, after))
    assert texts(answer) == [f"1-{seq}" for seq in range(after + 1, 6)]


def test_without_a_cursor_it_is_the_beginning() -> None:
    assert texts(reader_for(recording(2), None)) == ["1-1", "1-2"]


def test_a_bare_seq_is_of_the_streams_own_epoch() -> None:
    assert texts(reader_for(recording(2, epoch=4), EventId(None, 1))) == ["4-2"]


@pytest.mark.parametrize("cursor", [EventId(1, 6), EventId(2, 1)])
def test_a_cursor_that_nobody_can_have_is_ahead(cursor: EventId) -> None:
    assert reader_for(recording(5), cursor) == Ahead(5)


def test_what_is_gone_is_said_with_what_is_there() -> None:
    kept = recording(20, max_records=5)
    assert reader_for(kept, EventId(1, 14)) == Trimmed(16, 20)
    assert reader_for(kept, None) == Trimmed(16, 20)
    assert texts(reader_for(kept, EventId(1, 15)))[0] == "1-16"


def test_who_has_read_to_the_end_has_all_of_it() -> None:
    # vercel/resumable-stream#44: up to the very last record the rest is still to be had.
    over = recording(3, ended=Outcome.COMPLETED)
    assert reader_for(over, EventId(1, 4)) == Finished()
    assert texts(reader_for(over, EventId(1, 3))) == ["1-4"]


def test_a_running_stream_is_never_finished() -> None:
    assert isinstance(reader_for(recording(3), EventId(1, 3)), Ready)


def test_text_that_matches_is_continued() -> None:
    checked = recording(20, integrity=True)
    answer = reader_for(checked, EventId(1, 19, crc_of(19)))
    assert isinstance(answer, Ready)
    assert (answer.after, answer.restarted) == (19, False)


@pytest.mark.parametrize(("at", "restart"), [(20, 16), (16, 16), (15, 8), (7, 0)])
def test_text_that_does_not_match_is_read_again_from_the_last_leaf(at: int, restart: int) -> None:
    checked = recording(20, integrity=True)
    answer = reader_for(checked, EventId(1, at, crc_of(at) ^ 1))
    assert isinstance(answer, Ready)
    assert (answer.after, answer.restarted) == (restart, restart < at)


def test_damaged_text_is_not_taken_for_all_of_it() -> None:
    over = recording(9, ended=Outcome.COMPLETED, integrity=True)
    assert reader_for(over, EventId(1, 10, crc_of(9))) == Finished()
    answer = reader_for(over, EventId(1, 10, crc_of(8)))
    assert isinstance(answer, Ready)
    assert answer.after == 8


def test_text_that_does_not_match_and_is_no_longer_kept_is_trimmed() -> None:
    kept = recording(20, integrity=True, max_records=3)
    assert reader_for(kept, EventId(1, 19, 0)) == Trimmed(18, 20)


@pytest.mark.parametrize("cursor", [EventId(1, 9), EventId(1, 50)])
def test_a_client_that_is_further_than_the_store_still_learns_of_the_end(cursor: EventId) -> None:
    # The worker died with tokens that its clients had and the store had not; another one wrote
    # ERROR and END where it found the log to end.
    sealed = recording(5, ended=Outcome.ENGINE_LOST, error="producer_lost")
    assert texts(reader_for(sealed, cursor)) == ["1-6", "1-7"]


def test_the_end_of_the_next_epoch_is_new_to_readers_of_the_first() -> None:
    sealed = recording(5, ended=Outcome.ENGINE_LOST, error="producer_lost", epoch=2)
    assert texts(reader_for(sealed, EventId(1, 7))) == ["2-6", "2-7"]
    assert reader_for(sealed, EventId(2, 7)) == Finished()


def test_an_engine_that_was_lost_here_leaves_no_doubt() -> None:
    lost = recording(5, ended=Outcome.ENGINE_LOST, error="engine_lost")
    assert reader_for(lost, EventId(1, 9)) == Ahead(7)


def test_a_reader_of_events_by_number_begins_where_the_numbers_do() -> None:
    answer = reader_for(recording(20), None, starting_after=12)
    assert isinstance(answer, Ready)
    assert answer.after == 0


def test_a_reader_of_events_by_number_needs_no_more_than_it_asks_for() -> None:
    kept = recording(20, max_records=5)
    # Record 15 is event 18.
    answer = reader_for(kept, None, starting_after=18)
    assert isinstance(answer, Ready)
    assert answer.after == 15
    assert reader_for(kept, None, starting_after=17) == Trimmed(16, 20)
