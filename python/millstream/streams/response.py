"""The ASGI response that delivers one reader of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic_ns
from typing import TYPE_CHECKING, Protocol

from starlette.responses import Response

from millstream.streams.delivery import Delivery
from millstream.streams.formats import EVENT_STREAM
from millstream.types import Failure

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from millstream.streams.deliveries import Deliveries
    from millstream.streams.expiry import Expiry
    from millstream.streams.frames import FrameReader
    from millstream.streams.source import StreamSource

DIRECT_SEND = "millstream.direct_send"
"""Key of a scope: the server's own ``send``, for the body of a stream alone.

What wraps ``send`` inside the app watches for the start of a response and passes its body on, at
about a microsecond a frame for each of Starlette's layers (``benches/bench_delivery.py``).
"""

OVERRUN = Failure(
    "The client fell behind what the server keeps of this stream.", "server_error", "gap"
)

DETACHED = "detached"
"""What the state of a request calls the outcome of a stream that goes on without it."""


class ReaderPolicy(Protocol):
    """How the connection of a reader is watched: a `Descriptor` says so, and a `StreamPolicy`."""

    @property
    def keep_alive_seconds(self) -> float:
        """Silence after which a comment is sent; 0 sends none."""
        ...

    @property
    def blocked_send_seconds(self) -> float:
        """How long a client may take nothing before its connection is given up."""
        ...


class StreamResponse(Response):
    """Everything that is due in one ASGI ``send``, batched by the reader, never by a timer.

    The client's leaving is heard through ``receive`` alone: ``send`` neither raises nor tells on
    the servers that speak ASGI 2.3. A stream that did not end well ends the body without its
    last message, so that the server cuts it and no client takes it for whole; not so with
    ``typed_end``, where the dialect's last frame says how it ended (`native`, `responses`).

    ``deliveries`` is the worker's one instance, ``policy`` says when this client is sent comments
    or given up, if not as usual there. ``preface`` goes before the reader's first frame. A reader
    that falls behind what the log keeps gets the frame that ``overrun`` makes; ``skips_gaps`` lets
    it go on after that, else the body is cut, as it is by ``expiry``. In an app that is not
    `millstream.app`, FastAPI's own layers stand between this and the server: right, at some more
    time a frame.
    """

    def __init__(
        self,
        stream: StreamSource,
        reader: FrameReader,
        *,
        deliveries: Deliveries,
        media_type: str = EVENT_STREAM,
        headers: Mapping[str, str] | None = None,
        policy: ReaderPolicy | None = None,
        typed_end: bool = False,
        preface: bytes = b"",
        overrun: Callable[[FrameReader], bytes] | None = None,
        skips_gaps: bool = False,
        expiry: Expiry | None = None,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self._stream = stream
        self._reader = reader
        self._deliveries = deliveries
        self._policy = policy
        self._typed_end = typed_end
        self._preface = preface
        self._overrun = overrun or self._error
        self._skips_gaps = skips_gaps
        self._expiry = expiry
        self._clock = clock
        self.init_headers(
            {"cache-control": "no-cache", "x-accel-buffering": "no", **(headers or {})}
        )
        # Attached here and not in the call: between the two the stream has an owner already.
        stream.attach()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; return early, with the stream told, when the client leaves."""
        delivery = self._delivery(scope.get(DIRECT_SEND, send), body_begun(scope))
        departure = asyncio.ensure_future(client_departure(receive))
        departure.add_done_callback(lambda _: delivery.leave())
        self._deliveries.add(delivery)
        if self._expiry is not None:
            self._deliveries.expire(delivery, self._expiry.at_ns, delivery.cut)
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            delivery.sent_ns = self._clock()
            await delivery.run()
        finally:
            self._deliveries.discard(delivery)
            departure.cancel()
            self._stream.detach()
            state = scope.setdefault("state", {})
            state["outcome"] = self._stream.outcome or DETACHED

    def _delivery(self, send: Send, begun: Callable[[], None] | None) -> Delivery:
        return Delivery(
            self._stream,
            self._reader,
            send,
            notifier=self._deliveries.notifier,
            postpone=self._deliveries.postpone if self._deliveries.coalesces else None,
            overrun=self._overrun,
            skips_gaps=self._skips_gaps,
            typed_end=self._typed_end,
            preface=self._preface,
            begun=begun,
            keep_alive_ns=self._keep_alive_ns(),
            blocked_send_ns=self._blocked_send_ns(),
            expiry=self._expiry,
            clock=self._clock,
        )

    def _keep_alive_ns(self) -> int | None:
        if self.media_type != EVENT_STREAM:
            return None
        if self._policy is None:
            return self._deliveries.keep_alive_ns
        return int(self._policy.keep_alive_seconds * 1e9) or None

    def _blocked_send_ns(self) -> int:
        if self._policy is None:
            return self._deliveries.blocked_send_ns
        return int(self._policy.blocked_send_seconds * 1e9)

    def _error(self, reader: FrameReader) -> bytes:
        error = b'{"error":' + OVERRUN.to_json().encode() + b"}"
        return b"data: " + error + b"\n\n" if self.media_type == EVENT_STREAM else error + b"\n"


async def client_departure(receive: Receive) -> None:
    """Return when the client has left, or when the response is complete."""
    while (await receive())["type"] != "http.disconnect":
        pass


def body_begun(scope: Scope) -> Callable[[], None] | None:
    """What whoever watches this response wants to be called when its body begins.

    To be used by a body that is sent by `DIRECT_SEND`, past them.
    """
    told: Callable[[], None] | None = scope.get("state", {}).get("body_begun")
    return told
