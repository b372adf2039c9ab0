"""What a client that comes back gets to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from millstream._core import Reader
from millstream.streams.encoding import TYPED_END, dialect_of, encoder_for
from millstream.streams.failures import FAILURES
from millstream.types import Failure, Outcome

if TYPE_CHECKING:
    from millstream._core import Log
    from millstream.event_id import EventId
    from millstream.store import Recording
    from millstream.store.descriptor import DialectName
    from millstream.streams.encoding import Asked, Framing
    from millstream.streams.stream import Stream

# In the Responses dialect these events come before the first record's.
_EVENTS_BEFORE = 4

# The ERROR and the END of whoever ends a stream in another's stead.
_LAST_WORDS = 2


@dataclass(frozen=True, slots=True)
class Unknown:
    """There is no such stream, or no longer."""


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What comes after the cursor is not all kept; what is kept are the seqs ``oldest`` to
    ``latest``.
    """

    oldest: int
    latest: int


@dataclass(frozen=True, slots=True)
class Ahead:
    """The cursor names a record that is not there; the last one is ``latest``."""

    latest: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The stream is over and the client has all of it."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Here it is. ``after`` is where it begins, ``restarted`` whether that is before the cursor,
    because the text that the client has is not the stream's.
    """

    reader: Reader
    dialect: DialectName
    after: int
    restarted: bool = False
    preface: bytes = b""
    """What stands before the first record, which may be long in coming."""

    @property
    def typed_end(self) -> bool:
        """Whether a body in this dialect ends properly however the stream ended."""
        return self.dialect in TYPED_END


Answer = Unknown | Trimmed | Ahead | Finished | Ready


def reader_for(
    recording: Stream | Recording | None,
    cursor: EventId | None,
    *,
    framing: Framing = "sse",
    dialect: Asked | None = None,
    retry_ms: int | None = None,
    metadata: bool | None = None,
    starting_after: int | None = None,
    ids: bool | None = None,
) -> Answer:
    """A reader that goes on after ``cursor`` (None: from the beginning), or why there is none.

    ``starting_after`` is the cursor of the Responses dialect, the number of the last event that
    the client has.
    """
    if recording is None:
        return Unknown()
    log = recording.log
    place = _place(log, cursor, starting_after, epoch=recording.descriptor.epoch)
    if not isinstance(place, int):
        return place
    spoken = dialect_of(recording.descriptor, dialect)
    counted = _counted(log, place, spoken) if starting_after is None else None
    encoder = encoder_for(
        recording.descriptor,
        framing=framing,
        dialect=dialect,
        retry_ms=retry_ms,
        metadata=metadata,
        starting_after=starting_after,
        after_seq=counted,
        ids=ids,
    )
    preface = encoder.prelude() if place == 0 else b""
    if starting_after is None and not preface and _nothing_left(recording, place, dialect):
        return Finished()
    return Ready(
        Reader(log, encoder, after=place if counted is None else 0),
        spoken,
        after=place,
        restarted=cursor is not None and place < cursor.seq,
        preface=preface,
    )


def _place(
    log: Log, cursor: EventId | None, starting_after: int | None, *, epoch: int
) -> int | Trimmed | Ahead | Finished:
    if cursor is None:
        return _kept(log, 0 if starting_after is None else _seen(log, starting_after))
    if (cursor.epoch or epoch) > epoch:
        return Ahead(log.tail)
    if _cut_short(log, cursor, epoch=epoch):
        return _kept(log, min(cursor.seq, log.tail - _LAST_WORDS))
    if cursor.seq > log.tail:
        return Ahead(log.tail)
    place = _kept(log, cursor.seq)
    if isinstance(place, int) and cursor.crc is not None and not _matches(log, cursor):
        return _kept(log, log.last_leaf_before(place))
    if log.closed and place == log.tail:
        return Finished()
    return place


def _nothing_left(recording: Stream | Recording, after: int, dialect: Asked | None) -> bool:
    """Whether it is over, and no record behind this place has a frame in the dialect.

    OpenAI's has none for how a stream ended badly: who is answered with an empty body that is cut
    off would come back for ever.
    """
    if not recording.log.closed:
        return False
    reader = Reader(recording.log, encoder_for(recording.descriptor, dialect=dialect), after=after)
    return not reader.take(1) and reader.finished


def _cut_short(log: Log, cursor: EventId, *, epoch: int) -> bool:
    """Whether another process ended the stream, perhaps before what the client had from the first.

    Then the same seq may name another record, and what must not be missed are the last two.
    """
    if log.outcome != Outcome.ENGINE_LOST or log.error is None:
        return False
    if Failure.from_json(log.error).code == FAILURES[Outcome.ENGINE_LOST].code:
        return False
    return cursor.seq > log.tail or (cursor.epoch or epoch) < epoch


def _seen(log: Log, starting_after: int) -> int:
    # From its start where possible: the numbers of events are counted from there.
    before = log.oldest - 1
    return before if before <= starting_after - _EVENTS_BEFORE + 1 else 0


def _counted(log: Log, place: int, dialect: DialectName) -> int | None:
    """The same place, where it is reached by reading from the start.

    Events of a response are numbered, and its last one repeats what came before: who comes back
    gets the same bytes only from a reader that has seen all of it.
    """
    return place if place and dialect == "responses" and log.oldest == 1 else None


def _matches(log: Log, cursor: EventId) -> bool:
    known = log.crc_at(cursor.seq)
    return known is None or known == cursor.crc


def _kept(log: Log, after: int) -> int | Trimmed:
    return after if after + 1 >= log.oldest else Trimmed(log.oldest, log.tail)
