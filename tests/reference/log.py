"""Pure-Python twin of ``_core.Log`` and ``_core.Reader``, written from the specification."""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from collections.abc import Callable
from itertools import islice

from millstream.types import Kind
from tests.reference.sse import Encoder, Record

LEAF_TOKENS = 8


class Integrity:
    """The checks of a whole text, kept as one list of records and computed when asked."""

    def __init__(self, stream_id: bytes) -> None:
        self.stream_id = stream_id
        self.records: list[tuple[int, bytes]] = []

    def add(self, record: Record) -> None:
        if record.kind == Kind.TOKEN:
            self.records.append((record.seq, record.text.encode()))

    def crc(self, seq: int) -> int:
        return zlib.crc32(b"".join(prefixed(text) for at, text in self.records if at <= seq))

    def leaves(self) -> list[tuple[int, int, bytes]]:
        """All leaves, a short last one included."""
        return [
            (index, group[-1][0], self._leaf(index, [text for _, text in group]))
            for index, group in enumerate(
                self.records[start : start + LEAF_TOKENS]
                for start in range(0, len(self.records), LEAF_TOKENS)
            )
        ]

    def checks(self) -> tuple[int, int, int, bytes]:
        count, size = len(self.records), sum(len(text) for _, text in self.records)
        crc = self.crc(self.records[-1][0]) if self.records else 0
        return count, size, crc, merkle_root([digest for _, _, digest in self.leaves()])

    def _leaf(self, index: int, texts: list[bytes]) -> bytes:
        head = b"\x00" + self.stream_id + index.to_bytes(8, "big")
        return hashlib.sha256(head + b"".join(map(prefixed, texts))).digest()


def prefixed(text: bytes) -> bytes:
    """Varint of the length, then the text."""
    length, prefix = len(text), bytearray()
    while length >= 0x80:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(prefix) + bytes([length]) + text


def merkle_root(leaves: list[bytes]) -> bytes:
    """RFC 6962 section 2.1 over leaves that are hashed already."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    left, right = merkle_root(leaves[:split]), merkle_root(leaves[split:])
    return hashlib.sha256(b"\x01" + left + right).digest()


class Log:
    """Records in a deque; waiters are plain callables."""

    def __init__(
        self,
        *,
        max_bytes: int = 1 << 20,
        max_records: int = 1 << 16,
        integrity: bytes | None = None,
    ) -> None:
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.records: deque[Record] = deque()
        self.bytes = 0
        self.tail = 0
        self.closed = False
        self.waiters: list[Callable[[], object]] = []
        self.integrity = None if integrity is None else Integrity(integrity)

    @property
    def oldest(self) -> int:
        return self.tail + 1 - len(self.records)

    def append(
        self, kind: int, text: str, *, choice: int = 0, token_count: int = 0, time_ns: int
    ) -> int:
        if self.closed:
            raise ValueError("closed")
        self.tail += 1
        record = Record(self.tail, time_ns, kind, choice, token_count, text)
        if self.integrity is not None:
            self.integrity.add(record)
        self.records.append(record)
        self.bytes += len(text.encode())
        while self._over() and not (kind == Kind.END and len(self.records) == 1):
            self.bytes -= len(self.records.popleft().text.encode())
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter()
        return self.tail

    def close(self, outcome: str, *, time_ns: int) -> bool:
        if self.closed:
            return False
        self.append(Kind.END, outcome, time_ns=time_ns)
        self.closed = True
        return True

    def _over(self) -> bool:
        return self.bytes > self.max_bytes or len(self.records) > self.max_records


class Reader:
    """A cursor that encodes with the twin encoder."""

    def __init__(self, log: Log, encoder: Encoder, *, after: int = 0) -> None:
        self.log = log
        self.encoder = encoder
        self.cursor = after
        self.gap: tuple[int, int] | None = None

    @property
    def finished(self) -> bool:
        return self.log.closed and self.cursor == self.log.tail

    def take(self, max_bytes: int = 65536) -> bytes:
        if self.gap is None and self.cursor + 1 < self.log.oldest:
            self.gap = (self.log.oldest, self.log.tail)
        if self.gap is not None:
            return b""
        out = b""
        for record in islice(self.log.records, self.cursor + 1 - self.log.oldest, None):
            out += self.encoder.encode([record])
            self.cursor = record.seq
            if len(out) >= max_bytes:
                break
        return out

    def skip_gap(self) -> bool:
        if self.gap is None:
            return False
        self.cursor = self.gap[0] - 1
        self.gap = None
        return True

    def park(self, waiter: Callable[[], object]) -> bool:
        due = self.gap is not None or self.cursor < self.log.tail or self.log.closed
        if not due:
            self.log.waiters.append(waiter)
        return not due
