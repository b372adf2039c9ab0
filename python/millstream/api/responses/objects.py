"""A Response object from what a stream has come to.

The encoder writes the same object into the events of a stream (``rust/core/src/sse/encode``): a
client that polls sees what one that listens sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from millstream.api.responses.ids import item_id
from millstream.streams.failures import FAILURES
from millstream.types import Failure, Outcome, Usage

if TYPE_CHECKING:
    from millstream._core import Log
    from millstream.store.descriptor import Descriptor

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


class Recorded(Protocol):
    """A stream, live or kept, as far as an object is made of it."""

    @property
    def descriptor(self) -> Descriptor:
        """How it was made."""
        ...

    @property
    def log(self) -> Log:
        """What it has come to."""
        ...

    @property
    def outcome(self) -> Outcome | None:
        """How it ended, None while it runs."""
        ...


_STATUSES: Mapping[Outcome, Status] = {
    Outcome.COMPLETED: "completed",
    Outcome.LENGTH: "incomplete",
    Outcome.CANCELLED: "cancelled",
    Outcome.CLIENT_GONE: "cancelled",
}
_ITEM_STATUSES: Mapping[Status, str] = {"completed": "completed", "in_progress": "in_progress"}
_NO_REASON = Failure("The response failed.", "server_error", "server_error")


def response_object(stream: Recorded) -> dict[str, Any]:
    """The Response object of this moment.

    Raises ValueError where the stream is no response, or the beginning of its text is not kept.
    """
    descriptor, log, outcome = stream.descriptor, stream.log, stream.outcome
    if descriptor.response is None:
        raise ValueError(f"the stream of {descriptor.route} is not a response")
    members: dict[str, Any] = msgspec.json.decode(descriptor.response)
    status = status_of(outcome, background=members["background"], tail=log.tail)
    return {
        **members,
        "status": status,
        "error": _error(log, outcome) if status == "failed" else None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "output": _output(descriptor.id, log, status),
        "usage": _usage(log),
    }


def status_of(outcome: Outcome | None, *, background: bool, tail: int) -> Status:
    """OpenAI's word for where a stream is; ``tail`` is the seq of its newest record."""
    if outcome is not None:
        return _STATUSES.get(outcome, "failed")
    return "queued" if background and tail == 0 else "in_progress"


def _output(stream_id: str, log: Log, status: Status) -> list[dict[str, Any]]:
    if log.token_count == 0 and status in ("queued", "in_progress"):
        return []
    part = {"type": "output_text", "text": log.text(), "annotations": [], "logprobs": []}
    return [
        {
            "id": item_id(stream_id),
            "type": "message",
            "status": _ITEM_STATUSES.get(status, "incomplete"),
            "role": "assistant",
            "content": [part],
        }
    ]


def _error(log: Log, outcome: Outcome | None) -> dict[str, Any]:
    text = log.error
    failure = Failure.from_json(text) if text else FAILURES.get(outcome or Outcome.SHED, _NO_REASON)
    # OpenAI's own codes are an enumeration; the cause stands in the message.
    refused = failure.type == "invalid_request_error"
    return {"code": "invalid_prompt" if refused else "server_error", "message": failure.message}


def _usage(log: Log) -> dict[str, Any] | None:
    text = log.usage
    if text is None:
        return None
    usage = Usage.from_json(text)
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
