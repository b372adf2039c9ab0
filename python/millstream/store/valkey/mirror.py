"""A stream of another process, as it comes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from millstream._core import Log
from millstream.store.descriptor import Descriptor
from millstream.store.recording import Recording
from millstream.store.valkey.keys import BEFORE_ALL, EntryId, log_key
from millstream.types import Failure, Kind, Outcome

if TYPE_CHECKING:
    from millstream.store.valkey.connection import Reply

PRODUCER_LOST = Failure(
    "The worker that produced this stream is gone.", "server_error", "producer_lost"
)
RECORDS_LOST = Failure("The stream store has lost this stream.", "server_error", "store_lost")


class Mirror(Recording):
    """A log that entries of Valkey are unpacked into, shared by all readers of this process.

    ``last`` is the last entry taken over, ``owner`` the process that produces the stream.
    ``first_seq`` is where the log begins, and ``on_watched`` called when a first reader comes.
    """

    def __init__(
        self,
        descriptor: Descriptor,
        owner: str,
        *,
        first_seq: int,
        on_watched: Callable[[Mirror], None],
    ) -> None:
        log = Log(
            max_bytes=descriptor.max_bytes,
            max_records=descriptor.max_records,
            integrity=descriptor.id.encode() if descriptor.integrity else None,
            branches=len(descriptor.branches),
            first_seq=first_seq,
        )
        super().__init__(descriptor, log)
        self.owner = owner
        self.last = BEFORE_ALL
        self.key = log_key(descriptor.id)
        self.idle_since_ns: int | None = None
        self._on_watched = on_watched

    def attach(self) -> None:
        """One more reader follows; the producer hears of the first one at once."""
        super().attach()
        if self.readers == 1 and not self.log.closed:
            self._on_watched(self)

    def take(self, entries: list[Reply]) -> None:
        """Append what is new; ValueError if entries are missing or damaged."""
        for name, fields in entries:
            entry_id = EntryId.parse(name)
            if entry_id > self.last and not self.log.closed:
                self.log.unpack(fields[1])
                self.last = entry_id

    def lose(self, failure: Failure, *, time_ns: int) -> None:
        """End it here, when nobody anywhere can say how it goes on. Unix time."""
        if not self.log.closed:
            self.log.append(Kind.ERROR, failure.to_json(), time_ns=time_ns)
            self.log.close(Outcome.ENGINE_LOST, time_ns=time_ns)


def mirror_of(
    fields: list[bytes | None], oldest: list[Reply], *, on_watched: Callable[[Mirror], None]
) -> Mirror | None:
    """An empty mirror, from the fields ``descriptor`` and ``owner`` and the oldest entry, if any.

    None if there is no such stream. Raises ValueError for what this version does not understand.
    """
    described, owner = fields
    if described is None or owner is None:
        return None
    descriptor = msgspec.json.decode(described, type=Descriptor)
    first_seq = Log.first_seq_of(oldest[0][1][1]) if oldest else 1
    return Mirror(descriptor, owner.decode(), first_seq=first_seq, on_watched=on_watched)
