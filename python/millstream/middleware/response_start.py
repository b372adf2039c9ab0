"""One look at the start of a response, for every middleware that wants one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from millstream.middleware.state import state_of

if TYPE_CHECKING:
    from starlette.types import Message, Scope, Send

Field = tuple[bytes, bytes]
"""A header field: its name in lower case, its value."""


def response_start(scope: Scope, send: Send) -> tuple[ResponseStart, Send]:
    """The watcher of this response, and the ``send`` to go on with.

    The first middleware that asks has its ``send`` wrapped; those inside of it register with the
    same watcher and pass their own ``send`` on as it is. So a frame goes through one plain ``if``,
    however many they are (``benches/bench_middleware.py``).
    """
    state = state_of(scope)
    known = state.get("response_start")
    if known is not None:
        return known, send
    start = ResponseStart()
    state["response_start"] = start
    state["body_begun"] = start.body_begun
    return start, start.watched(send)


class ResponseStart:
    """The status of a response, the fields that middleware adds, and when its body began."""

    __slots__ = ("_fields", "_on_body", "_watching", "status")

    def __init__(self) -> None:
        self.status: int | None = None
        """Status of the response; None until it has started."""
        self._fields: list[Field] = []
        self._on_body: list[Callable[[], None]] = []
        self._watching = True

    def add_fields(self, fields: Iterable[Field]) -> None:
        """Put header fields after the response's own, in the order in which they are added."""
        self._fields.extend(fields)

    def on_body(self, callback: Callable[[], None]) -> None:
        """Call this when the first byte of the body is on its way; never for an empty body."""
        self._on_body.append(callback)

    def body_begun(self) -> None:
        """The first byte of the body is on its way, which may be another than ``send``'s."""
        if self._watching:
            self._watching = False
            for callback in self._on_body:
                callback()

    def watched(self, send: Send) -> Send:
        """A ``send`` that looks at messages until it has seen what somebody wants to see."""
        watching = True

        # Not a coroutine: a stream pays for this on every batch that it sends.
        def watched(message: Message) -> Awaitable[None]:
            nonlocal watching
            if watching:
                message = self._seen(message)
                watching = self._watching
            return send(message)

        return watched

    def _seen(self, message: Message) -> Message:
        if message["type"] == "http.response.start":
            return self._started(message)
        if self.status is not None:
            self._see_body(message)
        return message

    def _started(self, message: Message) -> Message:
        self.status = message["status"]
        self._watching = bool(self._on_body)
        if not self._fields:
            return message
        # A copy: an app may send the same message to every request.
        return {**message, "headers": [*message.get("headers", ()), *self._fields]}

    def _see_body(self, message: Message) -> None:
        if message["type"] != "http.response.body" or message.get("body"):
            self.body_begun()
        elif not message.get("more_body"):
            self._watching = False
