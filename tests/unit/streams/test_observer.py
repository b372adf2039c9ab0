"""Who listens cannot disturb."""

from __future__ import annotations

import logging

import pytest

from millstream.streams.lifecycle import State
from millstream.streams.observer import MoveLog, Observers
from millstream.streams.stream import Stream
from tests.unit.streams.parts import Bench, Heard


class Broken:
    """Fails whatever it hears."""

    def admitted(self, stream: Stream) -> None:
        raise RuntimeError

    def moved(self, stream: Stream, origin: State, to: State) -> None:
        raise RuntimeError

    def closed(self, stream: Stream) -> None:
        raise RuntimeError


def test_an_observer_that_fails_keeps_nothing_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard, stream = Heard(), Bench().stream()
    observers = Observers(Broken(), heard)
    observers.admitted(stream)
    observers.moved(stream, State.IDLE, State.HANDSHAKING)
    observers.closed(stream)
    assert heard.events == [("admitted", None), ("closed", None)]
    assert heard.moves == [(State.IDLE, State.HANDSHAKING)]
    assert [record.message for record in caplog.records] == ["observer_failed"] * 3


def test_every_move_is_a_line_of_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="millstream")
    MoveLog().moved(Bench().stream(), State.ACTIVE, State.DETACHED)
    (record,) = caplog.records
    assert record.message == "stream_moved"
    assert vars(record)["millstream_fields"] == {
        "stream": "stream-1",
        "origin": "active",
        "to": "detached",
        "outcome": None,
    }
