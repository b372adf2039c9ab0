"""A line for every request, at its end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING

from millstream.middleware.ending import Ending, ended_by
from millstream.middleware.response_start import response_start
from millstream.middleware.shown import shown, shown_path, who
from millstream.middleware.state import state_of
from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from millstream.telemetry.logging import Field, Logger

ACCESS_LOGGER = "millstream.access"


class AccessLogMiddleware:
    """Logs ``request`` with method, path, status, outcome, times and who it was.

    No query, whose values may be secrets, and nothing that could end a line. A client that left
    before the response began has the status 499. ``clock`` is in nanoseconds that never step back.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        log: Logger | None = None,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.app = app
        self._log = log or get_logger(ACCESS_LOGGER)
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        times = [self._clock()]
        start, send = response_start(scope, send)
        start.on_body(lambda: times.append(self._clock()))
        await ended_by(
            self.app(scope, receive, send), scope, start, partial(self._write, scope, times)
        )

    def _write(self, scope: Scope, times: list[int], ending: Ending) -> None:
        came, *first_byte = times
        fields: dict[str, Field] = {
            "method": shown(scope["method"]),
            "path": shown_path(scope),
            "status": ending.status,
            "outcome": ending.outcome,
            "duration_ms": _milliseconds(self._clock() - came),
        }
        if first_byte:
            fields["first_byte_ms"] = _milliseconds(first_byte[0] - came)
        known = who(state_of(scope)).items()
        fields.update((name, value) for name, value in known if value is not None)
        self._log.info("request", **fields)


def _milliseconds(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 3)
