"""What the routes that generate differ in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millstream.types import Usage

if TYPE_CHECKING:
    from millstream.store.descriptor import DialectName
    from millstream.store.recording import Recording
    from millstream.streams.stream import Stream


@dataclass(frozen=True, slots=True)
class Dialect:
    """Names of one route: of the encoder, of the objects, of the ids."""

    encoder: DialectName
    object: str
    id_prefix: str


CHAT = Dialect("chat", "chat.completion", "chatcmpl-")
COMPLETION = Dialect("completion", "text_completion", "cmpl-")
NATIVE = Dialect("native", "stream", "strm-")

_OBJECTS = {dialect.encoder: dialect.object for dialect in (CHAT, COMPLETION)}


def completion_object(stream: Stream | Recording) -> dict[str, object]:
    """The whole answer of a stream that ended well.

    Raises ValueError if the beginning of its text is no longer kept.
    """
    descriptor = stream.descriptor
    branch = descriptor.branches[0]
    return {
        "id": branch.chunk_id,
        "object": _OBJECTS[descriptor.dialect],
        "created": descriptor.created,
        "model": branch.model,
        "choices": [_choice(stream, index) for index in range(branch.choices)],
        "usage": Usage.from_json(stream.log.usage or "{}").to_dict(),
    }


def _choice(stream: Stream | Recording, index: int) -> dict[str, object]:
    text = stream.log.text(index)
    content: Mapping[str, object] = (
        {"message": {"role": "assistant", "content": text, "refusal": None}}
        if stream.descriptor.dialect == "chat"
        else {"text": text}
    )
    reason = stream.log.finish_reason(index)
    return {"index": index, **content, "logprobs": None, "finish_reason": reason}
