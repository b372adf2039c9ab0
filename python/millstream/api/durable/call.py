"""One request on its way: the service, the stream that it names, the clocks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from millstream.api.body import read_body
from millstream.api.durable.answers import SECURITY, denied, no_stream
from millstream.api.durable.denied import Denied
from millstream.api.durable.service import DurableService
from millstream.api.errors import BodyRefused
from millstream.api.tenant import tenant_of
from millstream.durable import DurableStream
from millstream.durable.deadlines import Key

RESERVED = "__ds"
"""First segment of the protocol's control interfaces, which are not served."""


class Call:
    """A request for the stream of one path; raises `Denied` for a path that cannot be one."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.service: DurableService = request.app.state.durable
        if not self.service.serves():
            message = (
                "Durable streams live in the memory of one worker, and this server has several. "
                "Set server.workers = 1 (or Granian's --workers 1)."
            )
            raise Denied(501, "several_workers", message)
        self.key: Key = (tenant_of(request), self._path(request.path_params["path"]))

    def _path(self, path: str) -> str:
        longest = self.service.settings.max_path_bytes
        if len(path.encode(errors="replace")) > longest:
            message = f"The path is longer than durable.max_path_bytes = {longest}."
            raise Denied(414, "path_too_long", message)
        if not path or not path.isprintable():
            raise Denied(400, "invalid_path", "The path is empty or has characters not printable.")
        if path.partition("/")[0] == RESERVED:
            raise Denied(501, "not_supported", "Subscriptions are not supported.")
        return path

    def now_ns(self) -> int:
        """The monotonic clock."""
        return self.service.clock()

    def stream(self) -> DurableStream:
        """The stream; raises `Denied` (404)."""
        found = self.service.streams.find(self.key, self.now_ns())
        if found is None:
            raise no_stream()
        return found

    async def body(self) -> bytes:
        """The whole body; raises `Denied`."""
        limit = self.service.max_body_bytes
        try:
            return await read_body(
                self.request, max_bytes=limit, max_seconds=self.service.body_seconds
            )
        except BodyRefused as error:
            if error.status == 413:
                message = f"The body is larger than server.max_body_bytes = {limit}."
                raise Denied(413, "request_too_large", message) from None
            raise Denied(error.status, "invalid_body", error.message) from None


async def answer(request: Request, handle: Callable[[Call], Awaitable[Response]]) -> Response:
    """What ``handle`` answers, or why not; with the fields that every answer has."""
    try:
        response = await handle(Call(request))
    except Denied as error:
        response = denied(error)
    for name, value in SECURITY.items():
        response.headers.setdefault(name, value)
    return response
