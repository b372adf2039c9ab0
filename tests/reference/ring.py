"""Pure-Python twin of the ring: the same bytes in the same shared memory, the same rules."""

from __future__ import annotations

import mmap
import os
import struct
from collections import deque
from dataclasses import dataclass

from millstream.types import Kind

MAGIC = int.from_bytes(b"MILLRING", "little")
VERSION = 1
HEADER_BYTES = 4096
HEAD_OFFSET = 128
TAIL_OFFSET = 256
MAX_TEXT_BYTES = 256 << 10
FIXED = struct.Struct("<IIHHIQQ")
WORD = struct.Struct("<Q")

RecordTuple = tuple[int, int, int, int, int, str]


class Memory:
    """The mapping behind a ring's memory descriptor, which stays the caller's."""

    def __init__(self, memory_fd: int) -> None:
        self.map = mmap.mmap(memory_fd, os.fstat(memory_fd).st_size)
        self.capacity = len(self.map) - HEADER_BYTES
        if struct.unpack_from("<QQQ", self.map) != (MAGIC, VERSION, self.capacity):
            raise ConnectionError("not a ring")

    def position(self, offset: int) -> int:
        """Head or tail in words."""
        return int(WORD.unpack_from(self.map, offset)[0])

    def set_position(self, offset: int, words: int) -> None:
        WORD.pack_into(self.map, offset, words)

    def read(self, words: int, size: int) -> bytes:
        """``size`` bytes from a position on, around the end if need be."""
        start = words * 8 % self.capacity
        first = min(size, self.capacity - start)
        start += HEADER_BYTES
        return (
            self.map[start : start + first] + self.map[HEADER_BYTES : HEADER_BYTES + size - first]
        )

    def write(self, words: int, data: bytes) -> None:
        start = words * 8 % self.capacity
        first = min(len(data), self.capacity - start)
        start += HEADER_BYTES
        self.map[start : start + first] = data[:first]
        self.map[HEADER_BYTES : HEADER_BYTES + len(data) - first] = data[first:]


class Reader:
    """Takes records out of a ring's memory."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.tail = 0
        self.sequence = 0

    def drain(self) -> list[RecordTuple]:
        head = self.memory.position(HEAD_OFFSET)
        if not 0 <= (head - self.tail) * 8 <= self.memory.capacity:
            raise ConnectionError("head out of range")
        records = []
        while self.tail != head:
            records.append(self._next(head))
        self.memory.set_position(TAIL_OFFSET, self.tail)
        return records

    def _next(self, head: int) -> RecordTuple:
        fixed = FIXED.unpack(self.memory.read(self.tail, FIXED.size))
        length, sequence, kind, choice, token_count, stream, time_ns = fixed
        words = 4 + -(-length // 8)
        if sequence != self.sequence + 1 or words > head - self.tail or kind not in set(Kind):
            raise ConnectionError("damaged record")
        text = self.memory.read(self.tail + 4, length).decode()
        self.tail += words
        self.sequence = sequence
        return stream, time_ns, kind, choice, token_count, text


@dataclass
class _Waiting:
    stream: int
    kind: int
    text: str
    choice: int
    token_count: int
    time_ns: int
    grows: bool


class Writer:
    """Puts records into a ring's memory; what finds no room waits, token text merged."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.max_text = min(MAX_TEXT_BYTES, memory.capacity // 4)
        self.head = 0
        self.sequence = 0
        self.waiting: deque[_Waiting] = deque()

    def write(
        self,
        stream: int,
        kind: int,
        text: str,
        *,
        choice: int = 0,
        token_count: int = 0,
        time_ns: int,
    ) -> None:
        pieces = self._split(text) if kind == Kind.TOKEN else [text]
        if len(pieces[-1].encode()) > self.max_text:
            raise ValueError("too long")
        for piece in pieces:
            self._add(_Waiting(stream, kind, piece, choice, token_count, time_ns, True))
            token_count = 0

    def flush(self) -> int:
        while self.waiting and self._push(self.waiting[0]):
            self.waiting.popleft()
        self.memory.set_position(HEAD_OFFSET, self.head)
        return len(self.waiting)

    def discard(self, stream: int) -> None:
        self.waiting = deque(record for record in self.waiting if record.stream != stream)

    def _split(self, text: str) -> list[str]:
        pieces, data = [], text.encode()
        while len(data) > self.max_text:
            cut = self.max_text
            while data[cut] & 0xC0 == 0x80:
                cut -= 1
            pieces.append(data[:cut].decode())
            data = data[cut:]
        return [*pieces, data.decode()]

    def _add(self, record: _Waiting) -> None:
        if not self.waiting and self._push(record):
            return
        if record.kind == Kind.TOKEN:
            if self._merged(record):
                return
        else:
            self._settle(record)
        self.waiting.append(record)

    def _merged(self, record: _Waiting) -> bool:
        """Whether the record joined the waiting token record that it continues."""
        for other in reversed(self.waiting):
            if (other.stream, other.choice) != (record.stream, record.choice):
                continue
            fits = len(other.text.encode()) + len(record.text.encode()) <= self.max_text
            if other.kind == Kind.TOKEN and other.grows and fits:
                other.text += record.text
                other.token_count += record.token_count
                return True
            return False
        return False

    def _settle(self, record: _Waiting) -> None:
        """Token records that this one ends grow no further."""
        for other in self.waiting:
            same_choice = other.choice == record.choice or record.kind != Kind.FINISH
            if other.stream == record.stream and same_choice:
                other.grows = False

    def _push(self, record: _Waiting) -> bool:
        data = record.text.encode()
        words = 4 + -(-len(data) // 8)
        if (self.head + words - self.memory.position(TAIL_OFFSET)) * 8 > self.memory.capacity:
            return False
        self.sequence += 1
        fixed = FIXED.pack(
            len(data),
            self.sequence,
            record.kind,
            record.choice,
            record.token_count,
            record.stream,
            record.time_ns,
        )
        self.memory.write(self.head, fixed + data.ljust((words - 4) * 8, b"\0"))
        self.head += words
        return True
