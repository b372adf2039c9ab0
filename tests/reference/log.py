"""Pure-Python twin of ``_core.Log`` and ``_core.Reader``, written from the specification."""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

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
    """Records in a deque, and the text of those before them; waiters are plain callables."""

    def __init__(
        self,
        *,
        max_bytes: int = 1 << 20,
        max_records: int = 1 << 16,
        integrity: bytes | None = None,
        branches: int = 1,
    ) -> None:
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.branches = branches
        self.records: deque[Record] = deque()
        self.bytes = 0
        self.tail = 0
        self.closed = False
        self.waiters: list[Callable[[], object]] = []
        self.integrity = None if integrity is None else Integrity(integrity)
        self._folded: dict[tuple[int, int], tuple[int, bytes]] = {}

    @property
    def oldest(self) -> int:
        return self.tail + 1 - len(self.records)

    def append(
        self,
        kind: int,
        text: str,
        *,
        choice: int = 0,
        token_count: int = 0,
        branch: int = 0,
        time_ns: int,
    ) -> int:
        if self.closed or branch >= self.branches:
            raise ValueError("closed, or no such branch")
        self.tail += 1
        record = Record(self.tail, time_ns, kind, choice, token_count, text, branch)
        if self.integrity is not None:
            self.integrity.add(record)
        self.records.append(record)
        self.bytes += len(text.encode())
        self._bound()
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter()
        return self.tail

    def close(self, outcome: str, settlement: str | None = None, *, time_ns: int) -> bool:
        if self.closed:
            return False
        text = outcome if settlement is None else f"{outcome} {settlement}"
        self.append(Kind.END, text, time_ns=time_ns)
        self.closed = True
        return True

    def snapshot(self) -> list[tuple[int, int, int, str]]:
        texts = dict(self._folded)
        for record in self.records:
            if record.kind == Kind.TOKEN:
                place = record.branch, record.choice
                omitted, text = texts.get(place, (0, b""))
                texts[place] = omitted, text + record.text.encode()
        return [
            (*place, omitted, text.decode())
            for place, (omitted, text) in sorted(texts.items())
            if omitted or text
        ]

    def crc_at(self, seq: int) -> int | None:
        if self.integrity is None or not self.oldest - 1 <= seq <= self.tail:
            return None
        return self.integrity.crc(seq)

    def full_leaves(self) -> list[tuple[int, int, bytes]]:
        """Leaves of 8 records."""
        if self.integrity is None:
            return []
        return self.integrity.leaves()[: len(self.integrity.records) // LEAF_TOKENS]

    def last_leaf_before(self, seq: int) -> int:
        leaves = self.full_leaves()
        ends = [0, *(last for _, last, _ in leaves if self.oldest - 1 <= last <= seq)]
        return ends[-1]

    def _bound(self) -> None:
        if len(self.records) > self.max_records:
            self._drop_oldest()
        while self.bytes > self.max_bytes and self._cut_folded():
            pass
        while self.bytes > self.max_bytes and self._may_drop():
            self._drop_oldest()
            self._cut_folded(everything=True)

    def _may_drop(self) -> bool:
        return len(self.records) > 1 or (
            len(self.records) == 1 and self.records[0].kind != Kind.END
        )

    def _drop_oldest(self) -> None:
        record = self.records.popleft()
        text = record.text.encode()
        if record.kind != Kind.TOKEN:
            self.bytes -= len(text)
            return
        place = record.branch, record.choice
        omitted, folded = self._folded.get(place, (0, b""))
        self._folded[place] = omitted, folded + text

    def _cut_folded(self, *, everything: bool = False) -> bool:
        """Cut what is too much from the front of the longest text, the first of equal ones."""
        if not self._folded:
            return False
        place = min(self._folded, key=lambda place: (-len(self._folded[place][1]), place))
        omitted, text = self._folded[place]
        to = len(text) if everything else min(len(text), self.bytes - self.max_bytes)
        while to < len(text) and text[to] & 0xC0 == 0x80:
            to += 1
        self._folded[place] = omitted + to, text[to:]
        self.bytes -= to
        return bool(to)


class Tally(NamedTuple):
    """What the records of one branch add up to."""

    token_count: int
    first_token_ns: int | None
    last_token_ns: int | None
    usage: str | None
    error: str | None
    outcome: str | None
    finish_reasons: dict[int, str]

    @classmethod
    def of(cls, written: Iterable[Record], branch: int) -> Tally:
        """The tally of one branch out of all records of its stream."""
        records = [record for record in written if record.branch == branch]
        tokens = [record for record in records if record.kind == Kind.TOKEN]
        last = {record.kind: record.text for record in records}
        return cls(
            token_count=sum(record.token_count for record in tokens),
            first_token_ns=tokens[0].time_ns if tokens else None,
            last_token_ns=tokens[-1].time_ns if tokens else None,
            usage=last.get(Kind.USAGE),
            error=last.get(Kind.ERROR),
            outcome=last.get(Kind.BRANCH_END),
            finish_reasons={it.choice: it.text for it in records if it.kind == Kind.FINISH},
        )


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
