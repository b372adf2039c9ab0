"""Who hears of a stream's life."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from millstream.streams.lifecycle import State
    from millstream.streams.stream import Stream

_log = get_logger(__name__)


class Observer(Protocol):
    """Hears of every stream: its admission, each of its moves, the release of all it held."""

    def admitted(self, stream: Stream) -> None:
        """The stream has begun."""
        ...

    def moved(self, stream: Stream, origin: State, to: State) -> None:
        """The stream has gone from one state to another."""
        ...

    def closed(self, stream: Stream) -> None:
        """The stream has its outcome and its readers are gone."""
        ...


class Observers:
    """Passes everything on to each of its observers; one that fails disturbs neither the others
    nor the stream.
    """

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def admitted(self, stream: Stream) -> None:
        """The stream has begun."""
        for observer in self._observers:
            try:
                observer.admitted(stream)
            except Exception as error:
                _failed(observer, stream, error)

    def moved(self, stream: Stream, origin: State, to: State) -> None:
        """The stream has gone from one state to another."""
        for observer in self._observers:
            try:
                observer.moved(stream, origin, to)
            except Exception as error:
                _failed(observer, stream, error)

    def closed(self, stream: Stream) -> None:
        """The stream has its outcome and its readers are gone."""
        for observer in self._observers:
            try:
                observer.closed(stream)
            except Exception as error:
                _failed(observer, stream, error)


class MoveLog:
    """Writes every move to the debug log."""

    def admitted(self, stream: Stream) -> None:
        """Its first move follows."""

    def moved(self, stream: Stream, origin: State, to: State) -> None:
        """The stream has gone from one state to another."""
        _log.debug("stream_moved", stream=stream.id, origin=origin, to=to, outcome=stream.outcome)

    def closed(self, stream: Stream) -> None:
        """Its last move came before."""


def _failed(observer: Observer, stream: Stream, error: Exception) -> None:
    _log.error("observer_failed", error=error, observer=type(observer).__name__, stream=stream.id)
