"""A stream from its beginning, as the answer to the request that asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream._core import Reader
from millstream.streams.encoding import encoder_for
from millstream.streams.response import StreamResponse

if TYPE_CHECKING:
    from starlette.responses import Response

    from millstream.api.accept import Framing
    from millstream.api.opening import Opened
    from millstream.api.services import Services


def streamed_answer(opened: Opened, framing: Framing, services: Services) -> Response:
    """Frames from the first one on, in the dialect in which the stream was made."""
    try:
        encoder = encoder_for(opened.stream.descriptor, framing=framing.framing, retry_ms=services.retry_ms())
        return StreamResponse(
            opened.stream,
            Reader(opened.stream.log, encoder),
            deliveries=services.deliveries,
            media_type=framing.media_type,
            headers=opened.headers,
            clock=services.clock,
        )
    except BaseException:
        opened.abandon()
        raise
