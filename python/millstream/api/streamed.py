"""A stream as the answer to the request that asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream._core import Reader
from millstream.api.cursor import HEADER, header_cursor
from millstream.api.expiry import expiry_of
from millstream.api.resumed import Resumption, resumed_answer
from millstream.streams.encoding import TYPED_END, encoder_for
from millstream.streams.frames import SnapshotReader
from millstream.streams.response import StreamResponse

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from millstream._core import Encoder
    from millstream.api.accept import Framing
    from millstream.api.opening import Opened
    from millstream.api.services import Services
    from millstream.store.recording import Recording
    from millstream.streams.frames import FrameReader
    from millstream.streams.stream import Stream


async def streamed_answer(
    request: Request, opened: Opened, framing: Framing, services: Services
) -> Response:
    """Frames in the dialect in which the stream was made, from the first one on.

    A client that sends its request again with a cursor has the beginning of a resumable stream.
    Raises `RouteRefused` (400, 404, 410) where it cannot go on after that.
    """
    descriptor = opened.stream.descriptor
    cursor = header_cursor(request) if opened.new is None and descriptor.resumable else None
    if cursor is None:
        return _from_the_first(request, opened, framing, services)
    asked = Resumption(framing, cursor, param=HEADER)
    return await resumed_answer(
        request, services, descriptor.id, descriptor.tenant, asked, headers=opened.headers
    )


def _from_the_first(
    request: Request, opened: Opened, framing: Framing, services: Services
) -> Response:
    descriptor = opened.stream.descriptor
    try:
        encoder = encoder_for(
            descriptor,
            framing=framing.framing,
            retry_ms=services.retry_ms() if descriptor.resumable else None,
        )
        preface = encoder.prelude()
        return StreamResponse(
            opened.stream,
            _reader(opened.stream, encoder, framing),
            deliveries=services.deliveries,
            media_type=framing.media_type,
            headers=opened.headers,
            policy=descriptor,
            typed_end=descriptor.dialect in TYPED_END,
            preface=preface,
            expiry=expiry_of(
                request,
                services,
                opened.stream,
                dialect=descriptor.dialect,
                framing=framing.framing,
            ),
            clock=services.clock,
        )
    except BaseException:
        opened.abandon()
        raise


def _reader(stream: Stream | Recording, encoder: Encoder, framing: Framing) -> FrameReader:
    """In the native dialect one that falls behind is told what it missed and goes on."""
    dialect = stream.descriptor.dialect
    if dialect != "native":
        return Reader(stream.log, encoder)
    return SnapshotReader(stream, encoder, after=0, dialect=dialect, framing=framing.framing)
