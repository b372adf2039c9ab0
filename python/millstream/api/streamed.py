"""A stream from its beginning, as the answer to the request that asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream._core import Reader
from millstream.streams.encoding import TYPED_END, encoder_for
from millstream.streams.response import StreamResponse

if TYPE_CHECKING:
    from starlette.responses import Response

    from millstream.api.accept import Framing
    from millstream.api.opening import Opened
    from millstream.api.services import Services
    from millstream.config import StreamPolicy
    from millstream.store.recording import Recording
    from millstream.streams.stream import Stream


def streamed_answer(opened: Opened, framing: Framing, services: Services) -> Response:
    """Frames from the first one on, in the dialect in which the stream was made."""
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
            Reader(opened.stream.log, encoder),
            deliveries=services.deliveries,
            media_type=framing.media_type,
            headers=opened.headers,
            policy=policy_of(services, opened.stream),
            typed_end=descriptor.dialect in TYPED_END,
            preface=preface,
            clock=services.clock,
        )
    except BaseException:
        opened.abandon()
        raise


def policy_of(services: Services, stream: Stream | Recording) -> StreamPolicy:
    """What holds for the connections of this stream: of several models the first one's word."""
    descriptor = stream.descriptor
    return services.settings.stream_policy(descriptor.tenant, descriptor.branches[0].model)
