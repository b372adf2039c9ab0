"""Pure-Python twin of ``_core.SseParser``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One dispatched event."""

    event: str
    data: str
    id: str
    retry: int | None


class TooLarge(ValueError):
    """An event is larger than its parser allows."""


class Parser:
    """The WHATWG's event stream interpretation, one line at a time."""

    def __init__(self, *, max_event_bytes: int = 1 << 20) -> None:
        self.max_event_bytes = max_event_bytes
        self.last_event_id = ""
        self.retry: int | None = None
        self._too_large = False
        self._start()

    def _start(self) -> None:
        self._held = bytearray()
        self._after_carriage_return = False
        self._started = False
        self._start_block()

    def _start_block(self) -> None:
        self._block_bytes = 0
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None
        self._retry: int | None = None

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete; raises ``TooLarge``, at the latest next time."""
        self._check()
        events = []
        for line in self._lines(data):
            if not self._fits(line):
                self._too_large = True
                break
            event = self._take_line(line.decode("utf-8", "replace"), len(line))
            if event is not None:
                events.append(event)
        self._too_large |= not self._fits(self._held_line())
        if not events:
            self._check()
        return events

    def finish(self) -> bool:
        """Whether an unfinished event was discarded; ready for the next connection."""
        self._check()
        held = self._held_line()
        pending = self._block_bytes > 0 or (held != b"" and not held.startswith(b":"))
        self._start()
        return pending

    def _check(self) -> None:
        if self._too_large:
            raise TooLarge

    def _fits(self, line: bytes) -> bool:
        counted = 0 if line.startswith(b":") else self._block_bytes
        return counted + len(line) <= self.max_event_bytes

    def _held_line(self) -> bytes:
        held = bytes(self._held)
        if self._started:
            return held
        return b"" if BYTE_ORDER_MARK.startswith(held) else held.removeprefix(BYTE_ORDER_MARK)

    def _lines(self, data: bytes) -> Iterator[bytes]:
        for byte in data:
            if byte == 0x0A and self._after_carriage_return:
                self._after_carriage_return = False
                continue
            self._after_carriage_return = byte == 0x0D
            if byte not in (0x0A, 0x0D):
                self._held.append(byte)
                continue
            line = bytes(self._held)
            self._held.clear()
            yield line if self._started else line.removeprefix(BYTE_ORDER_MARK)
            self._started = True

    def _take_line(self, line: str, size: int) -> Event | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        if name:
            self._block_bytes += size
            self._take_field(name, value.removeprefix(" "))
        return None

    def _take_field(self, name: str, value: str) -> None:
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit() and int(value) < 1 << 64:
            self._retry = self.retry = int(value)

    def _dispatch(self) -> Event | None:
        if self._id is not None:
            self.last_event_id = self._id
        event = None
        if self._data:
            data = "\n".join(self._data)
            event = Event(self._event or "message", data, self.last_event_id, self._retry)
        self._start_block()
        return event
