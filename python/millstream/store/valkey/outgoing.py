"""One live stream on its way to Valkey."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from millstream.store.valkey.keys import EntryId, claim_key, log_key, stream_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from millstream.store.base import Claim, IdempotencyKey, Producer
    from millstream.store.recording import Recording
    from millstream.store.valkey.wire import Command

FULL_ENTRY_RECORDS = 8
"""As many as a Merkle leaf has."""


FORGOTTEN_MS = 5000


def forgetting(stream_id: str, *keys: bytes) -> Iterator[Command]:
    """Let nobody find it any more, these keys neither; who reads it has time to read its end."""
    yield ("DEL", stream_key(stream_id), *keys)
    yield ("PEXPIRE", log_key(stream_id), FORGOTTEN_MS)


class PackedEntry(NamedTuple):
    """The commands that write an entry, the first of which is the entry; its last seq and size."""

    commands: list[Command]
    last: int
    size_bytes: int


class Outgoing:
    """A cursor on the stream's log: what lies before it is in Valkey.

    ``created`` says whether the stream's keys are there, ``sure`` whether that and the cursor can
    be trusted: not after a call whose answer never came. ``ended`` says that all is written,
    ``forgotten`` that nobody is to find it, only those who read it already.
    """

    def __init__(
        self,
        recording: Recording,
        producer: Producer,
        *,
        owner: str,
        claim: tuple[IdempotencyKey, Claim] | None,
        live_ttl_ms: int,
        max_entries: int,
    ) -> None:
        self.descriptor, self.log = recording.descriptor, recording.log
        self.id = recording.id
        self.producer = producer
        self.cursor = 0
        self.created = False
        self.sure = True
        self.ended = False
        self.forgotten = False
        self._claim = claim
        self._claim_key = None if claim is None else claim_key(claim[0])
        self._owner = owner
        self._live_ttl_ms = live_ttl_ms
        self._max_entries = max_entries
        self._stream_key, self._log_key = stream_key(self.id), log_key(self.id)
        self._waiting_since_ns: int | None = None

    def due(self, now_ns: int, flush_ns: int) -> bool:
        """Whether something is to be written now: a full entry, an old record, begin or end."""
        if not self.created or self.log.closed:
            return True
        waiting = self.log.tail - self.cursor
        if waiting == 0:
            self._waiting_since_ns = None
            return False
        if self._waiting_since_ns is None:
            self._waiting_since_ns = now_ns
        return waiting >= FULL_ENTRY_RECORDS or now_ns - self._waiting_since_ns >= flush_ns

    @property
    def behind(self) -> bool:
        """Whether Valkey lacks anything of what is there."""
        return not self.created or self.cursor < self.log.tail or self.log.closed

    @property
    def written(self) -> bool:
        """Whether the stream has ended and all of it is in Valkey."""
        return self.created and self.log.closed and self.cursor == self.log.tail

    def create(self) -> Iterator[Command]:
        """Make the stream known, or known again."""
        if self.forgotten:
            return
        described = msgspec.json.encode(self.descriptor)
        yield ("HSET", self._stream_key, "descriptor", described, "owner", self._owner)
        yield ("PEXPIRE", self._stream_key, self._live_ttl_ms)
        if self._claim is not None and self._claim_key is not None:
            value = msgspec.json.encode(self._claim[1])
            yield ("SET", self._claim_key, value, "NX", "PX", self._live_ttl_ms)
            yield ("PEXPIRE", self._claim_key, self._live_ttl_ms)

    def entry(self) -> PackedEntry | None:
        """The records after the cursor, None if there are none.

        Only the first entry makes the log: one that began in the middle would look whole.
        """
        packed = self.log.pack(self.cursor)
        if packed is None:
            return None
        batch, _first, last = packed
        self._waiting_since_ns = None
        first = self.cursor == 0
        bound = ("MAXLEN", "=", self._max_entries, bytes(EntryId(self.descriptor.epoch, last)))
        add: Command = ("XADD", self._log_key, *(() if first else ("NOMKSTREAM",)), *bound)
        add = (*add, "b", batch)
        return PackedEntry([add, self._expiry()] if first else [add], last, len(batch))

    def renew(self) -> Iterator[Command]:
        """Live on; the replies are for `renewed`."""
        yield ("PEXPIRE", self._stream_key, self._live_ttl_ms)
        if self.cursor > 0:
            yield self._expiry()
        if self._claim_key is not None:
            yield ("PEXPIRE", self._claim_key, self._live_ttl_ms)

    def renewed(self, replies: Sequence[object]) -> None:
        """Learn from the replies whether the keys are still there."""
        self.sure = self.sure and all(replies[: 1 if self.cursor == 0 else 2])

    def end(self) -> Iterator[Command]:
        """Say how it ended, and how long it stays."""
        if self.forgotten:
            yield from forgetting(self.id, *filter(None, [self._claim_key]))
            return
        retention_ms = max(int(self.descriptor.retention_seconds * 1000), 1)
        yield ("HSET", self._stream_key, "outcome", self.log.outcome or "")
        yield ("PEXPIRE", self._stream_key, retention_ms)
        yield ("PEXPIRE", self._log_key, retention_ms)
        if self._claim_key is not None:
            yield ("PEXPIRE", self._claim_key, retention_ms)

    def ask(self) -> Iterator[Command]:
        """Ask what is there; the two replies are for `answered`."""
        yield ("XREVRANGE", self._log_key, "+", "-", "COUNT", 1)
        yield ("EXISTS", self._stream_key)

    def answered(self, newest: list[tuple[bytes, object]], known: int) -> bool:
        """Go on from what is there; False if somebody else has ended the stream: leave it alone."""
        top = EntryId.parse(newest[0][0]) if newest else EntryId(self.descriptor.epoch, 0)
        if top.epoch > self.descriptor.epoch or top.seq > self.log.tail:
            return False
        self.cursor = top.seq
        self.created = bool(known)
        self.sure = True
        return True

    def _expiry(self) -> Command:
        return ("PEXPIRE", self._log_key, self._live_ttl_ms)
