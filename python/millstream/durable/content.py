"""What a stream holds: bytes, or JSON messages, in one buffer each.

A position counts bytes in the one and messages in the other, so that every position is a place
where reading may begin. Nothing is kept per append: a stream of single bytes costs what it holds.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from typing import Protocol

MESSAGE_BYTES = 9
"""What a message costs beside its text: a comma and its place in the index."""


@dataclass(frozen=True, slots=True)
class Extract:
    """Consecutive content as it goes over the wire; ``end`` is the position behind it."""

    data: bytes
    end: int


class Content(Protocol):
    """An append-only buffer."""

    @property
    def tail(self) -> int:
        """The position behind the last one."""

    def append(self, parts: list[bytes]) -> None:
        """Add parts, of which none is empty."""

    def read(self, position: int, max_bytes: int) -> Extract:
        """What begins at ``position``, which is not behind the tail."""


def cost(parts: list[bytes], *, messages: bool) -> int:
    """What these parts would occupy, in bytes."""
    return sum(map(len, parts)) + (MESSAGE_BYTES * len(parts) if messages else 0)


class ByteContent:
    """Bytes; a read may end anywhere."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def tail(self) -> int:
        """The position behind the last byte."""
        return len(self._data)

    def append(self, parts: list[bytes]) -> None:
        """Add bytes."""
        self._data += b"".join(parts)

    def read(self, position: int, max_bytes: int) -> Extract:
        """Up to ``max_bytes`` from ``position`` on."""
        data = bytes(memoryview(self._data)[position : position + max_bytes])
        return Extract(data, position + len(data))


class JsonContent:
    """JSON messages; a read gives an array of whole ones."""

    def __init__(self) -> None:
        # A comma after every message, so that a range is one slice.
        self._data = bytearray()
        self._ends = array("Q")

    @property
    def tail(self) -> int:
        """The number of messages."""
        return len(self._ends)

    def append(self, parts: list[bytes]) -> None:
        """Add messages, each a JSON text."""
        for part in parts:
            self._data += part
            self._data += b","
            self._ends.append(len(self._data))

    def read(self, position: int, max_bytes: int) -> Extract:
        """An array of at most ``max_bytes`` of messages, but of one at least."""
        if position == self.tail:
            return Extract(b"[]", position)
        start = self._ends[position - 1] if position else 0
        end = max(bisect_right(self._ends, start + max_bytes, position), position + 1)
        text = bytes(memoryview(self._data)[start : self._ends[end - 1] - 1])
        return Extract(b"[" + text + b"]", end)
