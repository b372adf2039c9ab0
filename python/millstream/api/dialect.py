"""What the two OpenAI generation routes differ in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.store.descriptor import DialectName
from millstream.streams.stream import Stream


@dataclass(frozen=True, slots=True)
class Dialect:
    """Names of one route: of the encoder, of the objects, of the ids."""

    encoder: DialectName
    object: str
    id_prefix: str


CHAT = Dialect("chat", "chat.completion", "chatcmpl-")
COMPLETION = Dialect("completion", "text_completion", "cmpl-")


def completion_object(dialect: Dialect, stream: Stream, *, choices: int) -> dict[str, object]:
    """The whole answer to a request without streaming."""
    return {
        "id": stream.descriptor.branches[0].chunk_id,
        "object": dialect.object,
        "created": stream.created,
        "model": stream.model,
        "choices": [_choice(dialect, stream, index) for index in range(choices)],
        "usage": stream.usage.to_dict(),
    }


def _choice(dialect: Dialect, stream: Stream, index: int) -> dict[str, object]:
    text = stream.log.text(index)
    content: Mapping[str, object] = (
        {"message": {"role": "assistant", "content": text, "refusal": None}}
        if dialect is CHAT
        else {"text": text}
    )
    reason = stream.log.finish_reason(index)
    return {"index": index, **content, "logprobs": None, "finish_reason": reason}
