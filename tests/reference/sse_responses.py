"""Pure-Python twin of the dialect ``responses`` of ``_core.Encoder``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from millstream.types import Kind
from tests.reference.sse import Marks, Record, closing_of, metadata_of, terminal


class ResponseEncoder:
    """Records of a whole stream to the events of OpenAI's Responses API."""

    def __init__(
        self,
        *,
        framing: str = "sse",
        chunk_id: str,
        model: str,
        created: int,
        metadata: bool = False,
        epoch: int | None = None,
        integrity: bool = False,
        retry_ms: int | None = None,
        response: str | None = None,
        starting_after: int | None = None,
    ) -> None:
        least = {
            "id": chunk_id,
            "object": "response",
            "created_at": created,
            "model": model,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
        self.template: dict[str, Any] = least if response is None else json.loads(response)
        self.item_id = "msg_" + chunk_id.removeprefix("resp_")
        self.names = (model, chunk_id)
        self.framing = framing
        self.metadata = metadata
        self.epoch = epoch
        self.integrity = integrity
        self.retry_ms = retry_ms
        self.starting_after = -1 if starting_after is None else starting_after
        self.number = 0
        self.usage: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None

    def encode(self, records: Iterable[Record], marks: Callable[[Record], Marks]) -> bytes:
        """The events of a batch; ids stand on the last event of a record."""
        return "".join(self._encode(record, marks(record)) for record in records).encode()

    def _encode(self, record: Record, marks: Marks) -> str:
        prelude = "".join(map(self._write, self._prelude())) if self.number == 0 else ""
        if not self.integrity:
            marks = Marks(text=marks.text)
        stream = self._stream(record)
        events = [event | stream for event in self._events(record, marks)]
        written = [self._write(event) for event in events[:-1]]
        written += [self._write(event, self._id_line(record, marks)) for event in events[-1:]]
        return prelude + "".join(written)

    def _prelude(self) -> Iterator[dict[str, Any]]:
        response = self._response("in_progress", output=[])
        yield {"type": "response.created", "response": response}
        yield {"type": "response.in_progress", "response": response}
        yield self._item_event("response.output_item.added", self._item("in_progress", []))
        yield self._place_event("response.content_part.added", part=_part(""))

    def _events(self, record: Record, marks: Marks) -> Iterator[dict[str, Any]]:
        match record.kind:
            case Kind.TOKEN if record.choice == 0:
                delta = {"delta": record.text, "logprobs": []}
                yield self._place_event("response.output_text.delta", **delta)
            case Kind.FINISH if record.choice == 0:
                part = _part(marks.text)
                text = {"text": marks.text, "logprobs": []}
                yield self._place_event("response.output_text.done", **text)
                yield self._place_event("response.content_part.done", part=part)
                cut = record.text in ("length", "content_filter")
                item = self._item("incomplete" if cut else "completed", [part])
                yield self._item_event("response.output_item.done", item)
            case Kind.USAGE:
                self.usage = json.loads(record.text)
            case Kind.ERROR:
                self.error = json.loads(record.text)
                yield {"type": "error"} | {k: self.error[k] for k in ("code", "message", "param")}
            case Kind.END:
                yield self._ending(terminal(record.text)[0], marks.text)

    def _ending(self, outcome: str, text: str) -> dict[str, Any]:
        event, status = {
            "completed": ("response.completed", "completed"),
            "length": ("response.incomplete", "incomplete"),
            "cancelled": ("response.incomplete", "cancelled"),
            "client_gone": ("response.incomplete", "cancelled"),
        }.get(outcome, ("response.failed", "failed"))
        item_status = "completed" if status == "completed" else "incomplete"
        response = self._response(
            status,
            output=[self._item(item_status, [_part(text)])],
            error=self._error(outcome) if status == "failed" else None,
            details={"reason": "max_output_tokens"} if status == "incomplete" else None,
        )
        return {"type": event, "response": response}

    def _error(self, outcome: str) -> dict[str, Any]:
        message = f"The response ended early: {outcome}."
        return {
            "code": "server_error",
            "message": message if self.error is None else self.error["message"],
        }

    def _response(
        self,
        status: str,
        *,
        output: list[Any],
        error: dict[str, Any] | None = None,
        details: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        return {
            **self.template,
            "status": status,
            "error": error,
            "incomplete_details": details,
            "output": output,
            "usage": None if self.usage is None else _usage(self.usage),
        }

    def _item(self, status: str, content: list[Any]) -> dict[str, Any]:
        return {
            "id": self.item_id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        }

    def _place_event(self, name: str, **members: Any) -> dict[str, Any]:
        place = {"item_id": self.item_id, "output_index": 0, "content_index": 0}
        return {"type": name, **place, **members}

    def _item_event(self, name: str, item: dict[str, Any]) -> dict[str, Any]:
        return {"type": name, "output_index": 0, "item": item}

    def _stream(self, record: Record) -> dict[str, Any]:
        members = metadata_of(record, *self.names) if self.metadata else {}
        if record.kind == Kind.END:
            members |= closing_of(record, Marks(), metadata=self.metadata)
        return {"stream": members} if members else {}

    def _id_line(self, record: Record, marks: Marks) -> str:
        if self.epoch is None:
            return ""
        crc = "" if marks.crc is None else f"-{marks.crc:08x}"
        return f"id: {self.epoch}-{record.seq}{crc}\n"

    def _write(self, event: dict[str, Any], id_line: str = "") -> str:
        number, self.number = self.number, self.number + 1
        if number <= self.starting_after:
            return ""
        name = event["type"]
        value = {"type": name, "sequence_number": number} | event
        data = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        if self.framing == "ndjson":
            return data + "\n"
        retry = "" if self.retry_ms is None else f"retry: {self.retry_ms}\n"
        self.retry_ms = None
        return f"{id_line}{retry}event: {name}\ndata: {data}\n\n"


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens", 0)
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": usage["total_tokens"],
    }
