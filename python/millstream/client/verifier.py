"""Checks that what came is what the server wrote: nothing lost, doubled, swapped or damaged.

Every record's id carries the CRC-32 of all text up to it; every eight token records a leaf, their
SHA-256; the last event the Merkle root over all leaves. This is no signature: whoever can forge
the text can forge the checks.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field, replace

from millstream.client.errors import IntegrityError
from millstream.client.event_id import EventId
from millstream.client.events import Checks, Leaf
from millstream.client.merkle import Merkle

LEAF_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that has been checked up to ``at``, None before the first record.

    ``tree`` is None if the beginning was not seen, ``leaf_index`` if the open leaf's was not.
    """

    at: EventId | None = None
    crc: int | None = 0
    records: int = 0
    size: int = 0
    leaf_index: int | None = 0
    open_leaf: tuple[bytes, ...] = ()
    tree: Merkle | None = field(default_factory=Merkle)

    @property
    def seq(self) -> int:
        """The seq of the last record, 0 before the first."""
        return 0 if self.at is None else self.at.seq

    @classmethod
    def joining(cls, at: EventId) -> Checkpoint:
        """A reader who has not seen what came up to ``at``."""
        return cls(at=at, crc=at.crc, leaf_index=None, tree=None)

    def with_text(self, text: bytes) -> Checkpoint:
        """The state after one more token record."""
        record = length_prefix(len(text)) + text
        return replace(
            self,
            crc=None if self.crc is None else zlib.crc32(record, self.crc),
            records=self.records + 1,
            size=self.size + len(text),
            open_leaf=() if self.leaf_index is None else (*self.open_leaf, record),
        )


class Verifier:
    """The checks of one stream, fed in the order of the wire; `IntegrityError` when they fail.

    ``after`` is where a reader joins who has not seen the beginning: then leaves are checked from
    the next one on, and the root is not. ``required`` refuses a stream without checksums.
    """

    def __init__(
        self, stream_id: str, *, after: EventId | None = None, required: bool = False
    ) -> None:
        self._stream_id = stream_id.encode()
        self._required = required
        self._state = Checkpoint() if after is None else Checkpoint.joining(after)
        self._good = self._state
        self._expected: Leaf | None = None
        self._fresh = True

    @property
    def position(self) -> EventId | None:
        """The id of the last record that passed."""
        return self._state.at

    @property
    def checked(self) -> bool:
        """Whether the ids carry checksums, as far as is known."""
        return self._required

    def record(self, at: EventId, text: str | None = None) -> None:
        """Check a record's place and, for a token record, its text."""
        first, self._fresh = self._fresh, False
        if first and at.seq != self._state.seq + 1 and at.seq == self._good.seq + 1:
            self.rewind()  # the server found our checksum wrong and begins again at its last leaf
        if self._expected is not None:
            raise self._broken(f"leaf {self._expected.index} did not come")
        self._check_place(at)
        state = self._state if text is None else self._state.with_text(text.encode())
        self._check_crc(at, state)
        self._state = replace(state, at=at, crc=at.crc)
        if len(state.open_leaf) == LEAF_TOKENS:
            self._close_leaf(at)

    def leaf(self, leaf: Leaf) -> None:
        """Check the digest of the last eight token records."""
        if self._state.leaf_index is None:
            self._state = replace(self._state, leaf_index=leaf.index + 1, open_leaf=())
        elif leaf != self._expected:
            raise self._broken(f"leaf {leaf.index} does not fit")
        self._expected = None
        self._good = self._state

    def done(self, checks: Checks | None) -> None:
        """Check the sum of the whole text."""
        if checks is None:
            if self._required:
                raise self._broken("the end has no checks")
            return
        found = self.checks()
        fits = self._state.crc is None or checks.crc == self._crc_hex()
        if not fits or found not in (None, checks):
            raise self._broken("the text does not fit the checks at its end")

    def checks(self) -> Checks | None:
        """The sum of the text so far; None if the beginning was not seen or nothing is checked."""
        state = self._state
        if state.tree is None or state.leaf_index is None or state.crc is None:
            return None
        tree = state.tree.push(self._digest(state)) if state.open_leaf else state.tree
        return Checks(state.records, state.size, self._crc_hex(), tree.root.hex())

    def reconnect(self) -> None:
        """A new connection goes on at `position`: a leaf that was on its way will not come."""
        self._fresh = True
        if self._expected is not None:
            self._expected = None
            self._good = self._state

    def rewind(self) -> None:
        """Go back to the last good leaf, or, without checksums, stay at the last good record."""
        self._expected = None
        if self._required:
            self._state = self._good

    def skip(self, seq: int) -> None:
        """Go on after ``seq`` without having seen what lies between."""
        epoch = 1 if self._state.at is None else self._state.at.epoch
        self._state = self._good = Checkpoint.joining(EventId(epoch, seq))
        self._expected = None

    def _check_place(self, at: EventId) -> None:
        due = self._state.seq + 1
        if at.seq < due:
            raise self._broken(f"record {at.seq} came again")
        if at.seq > due:
            raise self._broken(f"record {at.seq} came in place of {due}")
        if self._state.at is not None and at.epoch < self._state.at.epoch:
            raise self._broken(f"epoch {at.epoch} is over")

    def _check_crc(self, at: EventId, state: Checkpoint) -> None:
        if at.crc is None:
            if self._required:
                raise self._broken(f"record {at.seq} has no checksum")
            return
        self._required = True
        if state.crc is not None and at.crc != state.crc:
            raise self._broken(f"the text up to record {at.seq} does not fit its checksum")

    def _close_leaf(self, at: EventId) -> None:
        state, index = self._state, self._state.leaf_index or 0
        digest = self._digest(state)
        tree = None if state.tree is None else state.tree.push(digest)
        self._state = replace(state, leaf_index=index + 1, open_leaf=(), tree=tree)
        if at.crc is not None:
            self._expected = Leaf(index, digest.hex(), f"{at.epoch}-{at.seq}")

    def _digest(self, state: Checkpoint) -> bytes:
        head = b"\x00" + self._stream_id + (state.leaf_index or 0).to_bytes(8, "big")
        return hashlib.sha256(head + b"".join(state.open_leaf)).digest()

    def _crc_hex(self) -> str:
        return f"{self._state.crc or 0:08x}"

    def _broken(self, reason: str) -> IntegrityError:
        return IntegrityError(reason, None if self.position is None else str(self.position))


def length_prefix(length: int) -> bytes:
    """A length as LEB128 varint."""
    prefix = bytearray()
    while length >= 0x80:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return bytes(prefix)
