"""The life of one request, as its hooks hear of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from millstream.middleware.hook_events import Admitted, Ended, FirstByte
from millstream.middleware.shown import route_of
from millstream.middleware.state import state_of
from millstream.streams.branch import WHOLE
from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from starlette.types import Scope

    from millstream.middleware.ending import Ending
    from millstream.middleware.hook_events import RequestHooks
    from millstream.middleware.response_start import ResponseStart
    from millstream.streams.stream import Stream

_log = get_logger(__name__)


class RequestLife:
    """Tells the hooks of one request, in order and apart from it.

    There is a task only while a hook runs, or while the stream goes on without its request;
    ``tasks`` holds it. ``clock`` is in nanoseconds.
    """

    def __init__(
        self,
        scope: Scope,
        start: ResponseStart,
        hooks: tuple[RequestHooks, ...],
        *,
        tasks: set[asyncio.Task[None]],
        clock: Callable[[], int],
    ) -> None:
        self._scope = scope
        self._start = start
        self._hooks = hooks
        self._tasks = tasks
        self._clock = clock
        self._came_ns = clock()
        # What tells of a first byte may be a callback of the loop, outside of the request.
        self._context = copy_context()
        self._stream: Stream | None = None
        self._due: deque[Callable[[], Awaitable[None]]] = deque()
        self._running = False

    def admitted(self, stream: Stream | None = None) -> None:
        """The limits have let it pass; ``stream`` is what has begun by that."""
        self._stream = stream
        quota = state_of(self._scope).get("quota_remaining")
        self._tell("on_admitted", Admitted(**self._facts(), quota_remaining=quota))

    def first_byte(self) -> None:
        """The answer begins."""
        self._tell("on_first_byte", FirstByte(**self._facts(), status=self._start.status))

    def ended(self, ending: Ending) -> None:
        """The request is over; its stream may not be."""
        self._then(partial(self._outcome, ending))

    async def _outcome(self, ending: Ending) -> None:
        stream, usage, partial_ = self._stream, None, False
        outcome = ending.outcome
        if stream is not None:
            await stream.wait_ended()
            outcome, usage = stream.outcome or outcome, stream.usage
            partial_ = stream.outcome not in WHOLE
        event = Ended(
            **self._facts(), status=ending.status, outcome=outcome, usage=usage, partial=partial_
        )
        await self._call("on_outcome", event)

    def _tell(self, name: str, event: Admitted | FirstByte) -> None:
        self._then(partial(self._call, name, event))

    def _then(self, step: Callable[[], Awaitable[None]]) -> None:
        self._due.append(step)
        if not self._running:
            self._running = True
            loop = asyncio.get_running_loop()
            task = loop.create_task(self._run(), context=self._context)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        try:
            while self._due:
                await self._due.popleft()()
        finally:
            self._running = False

    async def _call(self, name: str, event: object) -> None:
        for hook in self._hooks:
            try:
                await getattr(hook, name)(event)
            except asyncio.CancelledError as error:
                if _cancelling():
                    raise
                _failed(hook, name, error)
            except Exception as error:
                _failed(hook, name, error)

    def _facts(self) -> dict[str, Any]:
        scope, stream = self._scope, self._stream
        state = state_of(scope)
        principal = state.get("principal")
        return {
            "method": scope["method"],
            "path": scope["path"],
            "route": route_of(scope),
            "request_id": state.get("request_id"),
            "flow_id": state.get("flow_id"),
            "tenant": state.get("tenant"),
            "subject": principal and principal.subject,
            "stream_id": stream and stream.id,
            "model": stream and stream.model,
            "elapsed_ns": self._clock() - self._came_ns,
        }


def _cancelling() -> bool:
    """Whether the hooks' own task is told to stop, and not only something that a hook waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _failed(hook: RequestHooks, name: str, error: BaseException) -> None:
    _log.error("hook_failed", error=error, hook=type(hook).__name__, call=name)
