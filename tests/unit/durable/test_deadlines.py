from __future__ import annotations

from millstream.durable import Creation
from millstream.durable.expiry import TimeToLive
from tests.unit.durable.making import KEY, SECOND, TEXT, created, registry


def test_streams_deleted_long_before_their_time_are_not_remembered() -> None:
    streams = registry()
    for _ in range(1000):
        created(streams, Creation(TEXT, TimeToLive(1_000_000)))
        streams.delete(KEY, 0)

    assert len(streams._deadlines) <= 66


def test_a_stream_made_anew_does_not_end_with_the_deadline_of_the_old_one() -> None:
    streams = registry()
    created(streams, Creation(TEXT, TimeToLive(5)))
    streams.delete(KEY, 0)
    made = created(streams, Creation(TEXT, TimeToLive(60)))

    streams.sweep(6 * SECOND)
    assert not made.gone
    streams.sweep(60 * SECOND)
    assert made.gone


def test_every_stream_ends_in_its_own_time() -> None:
    streams = registry()
    made = [
        created(streams, Creation(TEXT, TimeToLive(seconds)), ("default", str(seconds)))
        for seconds in (3, 1, 2)
    ]
    for second, left in ((1, 2), (2, 1), (3, 0)):
        streams.sweep(second * SECOND)
        assert len(streams) == left
    assert all(stream.gone for stream in made)
