"""Pure-Python twins of ``_core.Encoder`` and ``_core.SseParser``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from millstream.types import Kind

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Record(NamedTuple):
    """One entry of a stream's log."""

    seq: int
    time_ns: int
    kind: int
    choice: int
    token_count: int
    text: str
    branch: int = 0


class Encoder:
    """Records to frames, one ``json.dumps`` each."""

    def __init__(
        self,
        *,
        dialect: str,
        framing: str = "sse",
        chunk_id: str,
        model: str,
        created: int,
        include_usage: bool = False,
        metadata: bool = False,
        epoch: int | None = None,
    ) -> None:
        self.dialect = dialect
        self.framing = framing
        self.chunk_id = chunk_id
        self.model = model
        self.created = created
        self.include_usage = include_usage
        self.metadata = metadata
        self.epoch = epoch
        self.writes_roles = dialect == "chat"
        self._choices_seen: set[int] = set()

    def encode(self, records: Iterable[Record]) -> bytes:
        """The frames of a batch."""
        return "".join(self._frame(record) for record in records).encode()

    def _frame(self, record: Record) -> str:
        if self.dialect == "native":
            event = ("token", "finish", "usage", "error", "done")[record.kind - 1]
            return self._write(record, _native(record) | self._metadata(record), event)
        if record.kind == Kind.END:
            done = self.framing == "sse" and record.text in ("completed", "length")
            return self._id_line(record) + "data: [DONE]\n\n" if done else ""
        if record.kind == Kind.ERROR:
            return self._write(record, {"error": json.loads(record.text)})
        if record.kind == Kind.USAGE and not self.include_usage:
            return ""
        return self._write(record, self._chunk(record) | self._metadata(record))

    def _chunk(self, record: Record) -> dict[str, Any]:
        is_usage = record.kind == Kind.USAGE
        chunk: dict[str, Any] = {
            "id": self.chunk_id,
            "object": "text_completion"
            if self.dialect == "completion"
            else "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [] if is_usage else [self._choice(record)],
        }
        if self.include_usage:
            chunk["usage"] = json.loads(record.text) if is_usage else None
        return chunk

    def _choice(self, record: Record) -> dict[str, Any]:
        is_token = record.kind == Kind.TOKEN
        if self.dialect == "completion":
            content: dict[str, Any] = {"text": record.text if is_token else ""}
        else:
            delta = {"role": "assistant"} if self._is_first(record.choice) else {}
            content = {"delta": delta | ({"content": record.text} if is_token else {})}
        reason = None if is_token else record.text
        return {"index": record.choice, **content, "logprobs": None, "finish_reason": reason}

    def _is_first(self, choice: int) -> bool:
        first = self.writes_roles and choice not in self._choices_seen
        self._choices_seen.add(choice)
        return first

    def _metadata(self, record: Record) -> dict[str, Any]:
        if not self.metadata:
            return {}
        time = _EPOCH + timedelta(microseconds=record.time_ns // 1000)
        return {
            "stream": {
                "seq": record.seq,
                "ts": time.isoformat(timespec="microseconds").replace("+00:00", "Z"),
                "model_id": self.model,
                "chunk_id": f"{self.chunk_id}-{record.seq}",
                "token_count": record.token_count,
            }
        }

    def _id_line(self, record: Record) -> str:
        return "" if self.epoch is None else f"id: {self.epoch}-{record.seq}\n"

    def _write(self, record: Record, value: dict[str, Any], event: str | None = None) -> str:
        named = {} if event is None else {"event": event}
        if self.framing == "ndjson":
            return _compact(named | value) + "\n"
        event_line = "" if event is None else f"event: {event}\n"
        return f"{self._id_line(record)}{event_line}data: {_compact(value)}\n\n"


def _native(record: Record) -> dict[str, Any]:
    match record.kind:
        case Kind.TOKEN:
            return {"choice": record.choice, "text": record.text, "tokens": record.token_count}
        case Kind.FINISH:
            return {"choice": record.choice, "finish_reason": record.text}
        case Kind.USAGE:
            return {"usage": json.loads(record.text)}
        case Kind.ERROR:
            return {"error": json.loads(record.text)}
        case _:
            return {"outcome": record.text}


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


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
