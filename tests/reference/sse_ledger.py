"""What a log would know about the records of a stream, recomputed for each of them."""

from __future__ import annotations

from millstream.types import Kind
from tests.reference.log import LEAF_TOKENS, Integrity
from tests.reference.sse import Marks, Record


class Ledger:
    """Marks of a stream's records in their order; after a missing seq they are empty."""

    def __init__(self, stream_id: str) -> None:
        self._integrity: Integrity | None = Integrity(stream_id.encode())
        self._next_seq = 1
        self._text = ""

    def __call__(self, record: Record) -> Marks:
        """The marks of the next record."""
        if record.seq != self._next_seq:
            self._integrity = None
        self._next_seq = record.seq + 1
        if record.kind == Kind.TOKEN and (record.branch, record.choice) == (0, 0):
            self._text += record.text
        if self._integrity is None:
            return Marks(text=self._text)
        self._integrity.add(record)
        return Marks(
            crc=self._integrity.crc(record.seq),
            leaf=_completed_leaf(self._integrity, record),
            checks=self._integrity.checks() if record.kind == Kind.END else None,
            text=self._text,
        )


def _completed_leaf(integrity: Integrity, record: Record) -> tuple[int, int, bytes] | None:
    if record.kind != Kind.TOKEN or len(integrity.records) % LEAF_TOKENS:
        return None
    return integrity.leaves()[-1]
