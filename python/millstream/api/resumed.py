"""The rest of a stream, as the answer to a client that comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import Response

from millstream.api.cursor import PARAMETER, malformed
from millstream.api.errors import RouteRefused
from millstream.api.expiry import expiry_of
from millstream.api.named import known_stream, unknown_stream
from millstream.api.opening import stream_path
from millstream.streams.encoding import TYPED_END, dialect_of, encoder_for
from millstream.streams.frames import SnapshotReader
from millstream.streams.reading import Ahead, Finished, Ready, Trimmed, Unknown, reader_for
from millstream.streams.response import StreamResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from millstream.api.accept import Framing
    from millstream.api.services import Services
    from millstream.event_id import EventId
    from millstream.store.recording import Recording
    from millstream.streams.encoding import Asked
    from millstream.streams.frames import FrameReader
    from millstream.streams.reading import Answer
    from millstream.streams.stream import Stream


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a client that comes back asks for.

    ``param`` is what a refusal of the cursor names; with ``head`` only the
    head of the answer is wanted.
    """

    framing: Framing
    cursor: EventId | None
    dialect: Asked | None = None
    snapshot: bool = False
    head: bool = False
    param: str = PARAMETER


async def resumed_answer(
    request: Request,
    services: Services,
    stream_id: str,
    tenant: str,
    asked: Resumption,
    *,
    headers: Mapping[str, str],
) -> Response:
    """Replay what is kept after the cursor, then go on live; 204 where nothing can come any more.

    Raises `RouteRefused` (404, 400, 410) where there is nothing to read.
    """
    seen = 0 if asked.cursor is None else asked.cursor.seq
    stream = await known_stream(services, stream_id, tenant, reaching=seen)
    retry_ms = services.retry_ms()
    answer = reader_for(
        stream,
        asked.cursor,
        framing=asked.framing.framing,
        dialect=asked.dialect,
        retry_ms=retry_ms,
        ids=True,
    )
    if isinstance(answer, Finished):
        return Response(status_code=204, headers=headers)
    reader = _reader(stream, asked, answer, retry_ms)
    if asked.head:
        return _head(headers, asked.framing)
    preface = answer.preface if isinstance(answer, Ready) and reader is answer.reader else b""
    dialect = dialect_of(stream.descriptor, asked.dialect)
    return StreamResponse(
        stream,
        reader,
        deliveries=services.deliveries,
        media_type=asked.framing.media_type,
        headers=headers,
        policy=stream.descriptor,
        typed_end=dialect in TYPED_END,
        preface=preface,
        expiry=expiry_of(request, services, stream, dialect=dialect, framing=asked.framing.framing),
        clock=services.clock,
    )


def _reader(
    stream: Stream | Recording, asked: Resumption, answer: Answer, retry_ms: int
) -> FrameReader:
    """The reader; raises `RouteRefused` (404, 400, 410) where there can be none."""
    match answer:
        case Ready():
            return (
                _snapshots(stream, asked, answer.after, retry_ms)
                if asked.snapshot or answer.dialect == "native"
                else answer.reader
            )
        case Trimmed():
            if asked.snapshot:
                return _snapshots(stream, asked, asked.cursor.seq if asked.cursor else 0, retry_ms)
            raise _trimmed(stream.id, answer, param=asked.param)
        case Ahead():
            raise malformed(
                f"the cursor is ahead of the stream, which has come to {answer.latest}",
                param=asked.param,
                beside={"latest": answer.latest},
            )
        case Unknown() | Finished():
            raise unknown_stream(stream.id)


def _head(headers: Mapping[str, str], framing: Framing) -> Response:
    response = Response(headers=headers, media_type=framing.media_type)
    # Nobody knows the length of what a GET would bring.
    del response.headers["content-length"]
    return response


def _snapshots(
    stream: Stream | Recording, asked: Resumption, after: int, retry_ms: int
) -> SnapshotReader:
    encoder = encoder_for(
        stream.descriptor,
        framing=asked.framing.framing,
        dialect=asked.dialect,
        retry_ms=retry_ms,
        ids=True,
    )
    return SnapshotReader(
        stream,
        encoder,
        after=after,
        dialect=dialect_of(stream.descriptor, asked.dialect),
        framing=asked.framing.framing,
    )


def _trimmed(stream_id: str, answer: Trimmed, *, param: str) -> RouteRefused:
    return RouteRefused(
        410,
        "stream_trimmed",
        f"Of this stream {answer.oldest} to {answer.latest} are kept, and the cursor is before "
        f"that. GET {stream_path(stream_id)}?on_gap=snapshot brings the text so far.",
        param=param,
        beside={"oldest": answer.oldest, "latest": answer.latest},
    )
