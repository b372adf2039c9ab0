"""``GET /v1/streams/{id}``: a stream from where its client left it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from millstream.api.accept import Framing, framing_for
from millstream.api.cursor import cursor_of, malformed
from millstream.api.errors import RouteRefused
from millstream.api.named import known_stream, unknown_stream
from millstream.api.opening import retained_headers
from millstream.api.services import Services, services
from millstream.api.streamed import policy_of
from millstream.api.tenant import tenant_of
from millstream.errors import InvalidParameter
from millstream.streams.encoding import TYPED_END, Asked, dialect_of, encoder_for
from millstream.streams.frames import SnapshotReader
from millstream.streams.reading import Ahead, Finished, Ready, Trimmed, Unknown, reader_for
from millstream.streams.response import StreamResponse

if TYPE_CHECKING:
    from millstream.store.recording import Recording
    from millstream.streams.event_id import EventId
    from millstream.streams.frames import FrameReader
    from millstream.streams.reading import Answer
    from millstream.streams.stream import Stream

router = APIRouter()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a reader asks for."""

    framing: Framing
    cursor: EventId | None
    dialect: Asked | None
    snapshot: bool


@router.head("/v1/streams/{stream_id}", include_in_schema=False)
@router.get("/v1/streams/{stream_id}")
async def read_stream(request: Request, stream_id: str) -> Response:
    """Replay what is kept after the cursor, then go on live; any number may read one stream."""
    parts = services(request)
    asked = _Asked(
        framing_for(request),
        cursor_of(request),
        _dialect(request),
        _choice(request, "on_gap", ("snapshot",)) is not None,
    )
    seen = 0 if asked.cursor is None else asked.cursor.seq
    stream = await known_stream(parts, stream_id, tenant_of(request), reaching=seen)
    retry_ms = parts.retry_ms()
    answer = reader_for(
        stream,
        asked.cursor,
        framing=asked.framing.framing,
        dialect=asked.dialect,
        retry_ms=retry_ms,
    )
    headers = retained_headers(stream_id)
    if isinstance(answer, Finished):
        return Response(status_code=204, headers=headers)
    reader = _reader(stream, asked, answer, retry_ms)
    if request.method == "HEAD":
        return _head(headers, asked.framing)
    preface = answer.preface if isinstance(answer, Ready) and reader is answer.reader else b""
    return _delivered(stream, reader, asked, headers, parts, preface=preface)


def _reader(
    stream: Stream | Recording, asked: _Asked, answer: Answer, retry_ms: int
) -> FrameReader:
    """The reader; raises `RouteRefused` (404, 400, 410) where there can be none."""
    match answer:
        case Ready():
            return (
                _snapshots(stream, asked, answer.after, retry_ms)
                if asked.snapshot
                else answer.reader
            )
        case Trimmed():
            if asked.snapshot:
                return _snapshots(stream, asked, asked.cursor.seq if asked.cursor else 0, retry_ms)
            raise _trimmed(answer)
        case Ahead():
            raise malformed(
                f"the cursor is ahead of the stream, which has come to {answer.latest}",
                beside={"latest": answer.latest},
            )
        case Unknown() | Finished():
            raise unknown_stream(stream.id)


def _head(headers: dict[str, str], framing: Framing) -> Response:
    response = Response(headers=headers, media_type=framing.media_type)
    # Nobody knows the length of what a GET would bring.
    del response.headers["content-length"]
    return response


def _snapshots(
    stream: Stream | Recording, asked: _Asked, after: int, retry_ms: int
) -> SnapshotReader:
    encoder = encoder_for(
        stream.descriptor,
        framing=asked.framing.framing,
        dialect=asked.dialect,
        retry_ms=retry_ms,
    )
    return SnapshotReader(
        stream,
        encoder,
        after=after,
        dialect=dialect_of(stream.descriptor, asked.dialect),
        framing=asked.framing.framing,
    )


def _delivered(
    stream: Stream | Recording,
    reader: FrameReader,
    asked: _Asked,
    headers: dict[str, str],
    parts: Services,
    *,
    preface: bytes,
) -> Response:
    return StreamResponse(
        stream,
        reader,
        deliveries=parts.deliveries,
        media_type=asked.framing.media_type,
        headers=headers,
        policy=policy_of(parts, stream),
        typed_end=dialect_of(stream.descriptor, asked.dialect) in TYPED_END,
        preface=preface,
        clock=parts.clock,
    )


def _trimmed(answer: Trimmed) -> RouteRefused:
    return RouteRefused(
        410,
        "stream_trimmed",
        f"Of this stream {answer.oldest} to {answer.latest} are kept, and the cursor is before "
        "that. Ask for ?on_gap=snapshot to get the text so far.",
        param="after",
        beside={"oldest": answer.oldest, "latest": answer.latest},
    )


def _dialect(request: Request) -> Asked | None:
    dialect: Literal["native", "openai"] | None
    match _choice(request, "dialect", ("native", "openai")):
        case "native":
            dialect = "native"
        case "openai":
            dialect = "openai"
        case _:
            dialect = None
    return dialect


def _choice(request: Request, name: str, choices: tuple[str, ...]) -> str | None:
    """The value of this query parameter; raises `InvalidParameter` for one that is not offered."""
    value = request.query_params.get(name)
    if value is not None and value not in choices:
        offered = " or ".join(f"'{choice}'" for choice in choices)
        raise InvalidParameter(f"{name}: must be {offered}.", param=name)
    return value
