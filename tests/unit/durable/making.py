"""Streams and registries as the tests want them."""

from __future__ import annotations

from itertools import count

from millstream.durable import (
    Append,
    Appended,
    Bounds,
    Created,
    Creation,
    DurableStream,
    ProducerMark,
    StreamRegistry,
    parse_content_type,
)
from millstream.durable.content_type import ContentType

SECOND = 1_000_000_000
KEY = ("default", "a")


def media_type(text: str) -> ContentType:
    found = parse_content_type(text)
    assert found is not None
    return found


TEXT, JSON = media_type("text/plain"), media_type("application/json")


def registry(
    *, max_streams: int = 10, max_stream_bytes: int = 1 << 20, max_bytes: int = 1 << 22
) -> StreamRegistry:
    ids = count(1)
    bounds = Bounds(max_streams, max_stream_bytes, max_bytes)
    return StreamRegistry(bounds, new_id=lambda: f"{next(ids):08x}")


def created(
    streams: StreamRegistry, creation: Creation, key: tuple[str, str] = KEY, *, now_ns: int = 0
) -> DurableStream:
    made = streams.create(key, creation, now_ns=now_ns, unix_ns=now_ns)
    assert isinstance(made, Created), made
    return made.stream


def stream(content_type: ContentType = TEXT, body: bytes = b"") -> DurableStream:
    return created(registry(), Creation(content_type, body=body))


def text(body: bytes, **more: object) -> Append:
    return Append(body, TEXT, **more)  # type: ignore[arg-type]


def mark(sequence: int, *, epoch: int = 0, name: str = "p") -> ProducerMark:
    return ProducerMark(name, epoch, sequence)


def appended(answer: object) -> Appended:
    assert isinstance(answer, Appended), answer
    return answer
