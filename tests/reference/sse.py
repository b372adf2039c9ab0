"""Pure-Python twin of ``_core.Encoder``; that of ``_core.SseParser`` is named here too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from millstream.types import Kind
from tests.reference.sse_parser import BYTE_ORDER_MARK, Parser, TooLarge

__all__ = ["BYTE_ORDER_MARK", "Encoder", "Frame", "Marks", "Parser", "Record", "TooLarge"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE = ("completed", "length")


class Record(NamedTuple):
    """One entry of a stream's log."""

    seq: int
    time_ns: int
    kind: int
    choice: int
    token_count: int
    text: str
    branch: int = 0


class Marks(NamedTuple):
    """What the log knows about a record."""

    crc: int | None = None
    leaf: tuple[int, int, bytes] | None = None
    checks: tuple[int, int, int, bytes] | None = None
    text: str = ""
    """Of branch 0, choice 0."""


class Frame(NamedTuple):
    """One event or line, before it is written."""

    value: dict[str, Any] | str
    event: str | None = None
    is_last: bool = True
    """Whether it is the last frame of a record: then it carries the id."""
    is_marked: bool = False
    """Whether it carries metadata."""


def _no_marks(record: Record) -> Marks:
    return Marks()


class Encoder:
    """Records to frames, one ``json.dumps`` each; all dialects but ``responses``."""

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
        integrity: bool = False,
        fields: bool = False,
        retry_ms: int | None = None,
        stream_id: str = "",
        branches: Sequence[tuple[str, str]] | None = None,
    ) -> None:
        self.dialect = dialect
        self.framing = framing
        self.created = created
        self.include_usage = include_usage
        self.metadata = metadata
        self.epoch = epoch
        self.integrity = integrity
        self.fields = fields
        self.retry_ms = retry_ms
        self.branches = branches or [(model, chunk_id)]
        self.writes_roles = dialect == "chat"
        self._choices_seen: set[tuple[int, int]] = set()

    def encode(
        self, records: Iterable[Record], marks: Callable[[Record], Marks] = _no_marks
    ) -> bytes:
        """The frames of a batch."""
        return "".join(self._encode(record, marks(record)) for record in records).encode()

    def _encode(self, record: Record, marks: Marks) -> str:
        if not self.integrity:
            marks = Marks(text=marks.text)
        frames = self._native if self.dialect == "native" else self._openai
        return "".join(self._write(record, marks, frame) for frame in frames(record, marks))

    # native

    def _native(self, record: Record, marks: Marks) -> Iterator[Frame]:
        if record.kind == Kind.HANDOVER:
            self._announce_retry(record)
        event, value = self._native_event(record, marks)
        yield Frame(value | self._stream(self._metadata(record)), event, is_marked=True)
        if record.kind == Kind.TOKEN and marks.leaf is not None:
            index, last, digest = marks.leaf
            leaf = {"index": index, "digest": digest.hex(), "last": self._position(last)}
            yield Frame(leaf, "leaf", is_last=False)

    def _native_event(self, record: Record, marks: Marks) -> tuple[str, dict[str, Any]]:
        several = len(self.branches) > 1
        branch = {"branch": record.branch} if several else {}
        model = branch | ({"model": self._names(record)[0]} if several else {})
        match record.kind:
            case Kind.TOKEN:
                token = {"choice": record.choice, "text": record.text, "tokens": record.token_count}
                return "token", model | token
            case Kind.FINISH:
                finish = {"choice": record.choice, "finish_reason": record.text}
                return "finish", model | finish
            case Kind.USAGE:
                return "usage", branch | {"usage": json.loads(record.text)}
            case Kind.ERROR:
                return "error", branch | {"error": json.loads(record.text)}
            case Kind.HANDOVER:
                return "handover", self._handover(record, marks)
            case Kind.BRANCH_END:
                return "branch_done", {"branch": record.branch, "outcome": record.text}
            case _:
                outcome, _ = terminal(record.text)
                return "done", {"outcome": outcome} | self._closing(record, marks)

    # OpenAI

    def _openai(self, record: Record, marks: Marks) -> Iterator[Frame]:
        match record.kind:
            case Kind.TOKEN | Kind.FINISH:
                yield self._chunk(record, marks, [self._choice(record)])
            case Kind.USAGE if self.include_usage:
                yield self._chunk(record, marks, [], usage=json.loads(record.text))
            case Kind.ERROR:
                yield Frame({"error": json.loads(record.text)})
            case Kind.HANDOVER:
                self._announce_retry(record)
                more = {"handover": self._handover(record, marks)}
                yield self._chunk(record, marks, [], more=more)
            case Kind.END:
                is_whole = self.framing == "sse" and terminal(record.text)[0] in _WHOLE
                closing = self._closing(record, marks)
                if closing:
                    frame = self._chunk(record, marks, [], more=closing)
                    yield frame._replace(is_last=not is_whole)
                if is_whole:
                    yield Frame("[DONE]")

    def _chunk(
        self,
        record: Record,
        marks: Marks,
        choices: list[Any],
        *,
        usage: Any = None,
        more: dict[str, Any] | None = None,
    ) -> Frame:
        model, chunk_id = self._names(record)
        chunk: dict[str, Any] = {
            "id": chunk_id,
            "object": "text_completion"
            if self.dialect == "completion"
            else "chat.completion.chunk",
            "created": self.created,
            "model": model,
            "choices": choices,
        }
        if self.include_usage:
            chunk["usage"] = usage
        ids = self.framing == "ndjson" and self.epoch is not None
        stream = {"id": self._id(record, marks)} if ids else {}
        stream |= self._metadata(record) | _integrity(marks) | (more or {})
        return Frame(chunk | self._stream(stream), is_marked=True)

    def _choice(self, record: Record) -> dict[str, Any]:
        is_token = record.kind == Kind.TOKEN
        if self.dialect == "completion":
            content: dict[str, Any] = {"text": record.text if is_token else ""}
        else:
            delta = {"role": "assistant"} if self._is_first(record) else {}
            content = {"delta": delta | ({"content": record.text} if is_token else {})}
        reason = None if is_token else record.text
        return {"index": record.choice, **content, "logprobs": None, "finish_reason": reason}

    def _is_first(self, record: Record) -> bool:
        place = (record.branch, record.choice)
        first = self.writes_roles and place not in self._choices_seen
        self._choices_seen.add(place)
        return first

    # both

    def _names(self, record: Record) -> tuple[str, str]:
        return self.branches[record.branch]

    def _stream(self, members: dict[str, Any]) -> dict[str, Any]:
        return {"stream": members} if members else {}

    def _metadata(self, record: Record) -> dict[str, Any]:
        return metadata_of(record, *self._names(record)) if self.metadata else {}

    def _handover(self, record: Record, marks: Marks) -> dict[str, Any]:
        return {**json.loads(record.text), "after": self._id(record, marks)}

    def _announce_retry(self, record: Record) -> None:
        self.retry_ms = json.loads(record.text).get("retry_ms", self.retry_ms)

    def _closing(self, record: Record, marks: Marks) -> dict[str, Any]:
        return closing_of(record, marks, metadata=self.metadata)

    def _position(self, seq: int) -> str:
        return f"{seq}" if self.epoch is None else f"{self.epoch}-{seq}"

    def _id(self, record: Record, marks: Marks) -> str:
        crc = "" if marks.crc is None else f"-{marks.crc:08x}"
        return self._position(record.seq) + crc

    # framing

    def _write(self, record: Record, marks: Marks, frame: Frame) -> str:
        has_id = self.epoch is not None and frame.is_last
        event_id = self._id(record, marks) if has_id else None
        if self.framing == "ndjson":
            return self._write_line(frame, event_id)
        lines = [] if event_id is None else [f"id: {event_id}"]
        if self.retry_ms is not None:
            lines.append(f"retry: {self.retry_ms}")
            self.retry_ms = None
        if frame.event is not None:
            lines.append(f"event: {frame.event}")
        if frame.is_marked and self.fields:
            lines += self._field_lines(record)
        data = frame.value if isinstance(frame.value, str) else _compact(frame.value)
        return "\n".join([*lines, f"data: {data}", "", ""])

    def _write_line(self, frame: Frame, event_id: str | None) -> str:
        assert isinstance(frame.value, dict)
        named: dict[str, Any] = {} if frame.event is None else {"event": frame.event}
        if named and event_id is not None:
            named["id"] = event_id
        return _compact(named | frame.value) + "\n"

    def _field_lines(self, record: Record) -> list[str]:
        model, chunk_id = (_one_line(name) for name in self._names(record))
        return [
            f"model-id: {model}",
            f"chunk-id: {chunk_id}-{record.seq}",
            f"token-count: {record.token_count}",
        ]


def terminal(text: str) -> tuple[str, dict[str, Any] | None]:
    """Outcome and figures of an END record."""
    outcome, _, figures = text.partition(" ")
    if figures.startswith("{") and figures.endswith("}"):
        return outcome, json.loads(figures)
    return text, None


def metadata_of(record: Record, model: str, chunk_id: str) -> dict[str, Any]:
    """What the ``stream`` member says of a record's place."""
    time = _EPOCH + timedelta(microseconds=record.time_ns // 1000)
    return {
        "seq": record.seq,
        "ts": time.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "model_id": model,
        "chunk_id": f"{chunk_id}-{record.seq}",
        "token_count": record.token_count,
    }


def closing_of(record: Record, marks: Marks, *, metadata: bool) -> dict[str, Any]:
    """What the last frame says of the whole stream."""
    members: dict[str, Any] = {}
    if marks.checks is not None:
        records, size, crc, root = marks.checks
        checks = {"records": records, "bytes": size, "crc": f"{crc:08x}", "root": root.hex()}
        members["checks"] = checks
    _, figures = terminal(record.text)
    if metadata and figures is not None:
        members["settled"] = figures
    return members


def _integrity(marks: Marks) -> dict[str, Any]:
    members: dict[str, Any] = {} if marks.crc is None else {"crc": f"{marks.crc:08x}"}
    if marks.leaf is not None:
        members["leaf"] = {"index": marks.leaf[0], "digest": marks.leaf[2].hex()}
    return members


def _one_line(name: str) -> str:
    return name.replace("\r", " ").replace("\n", " ")


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
