"""What follows the file and the other instances, for as long as the worker runs."""

from __future__ import annotations

import asyncio
from time import time_ns
from typing import TYPE_CHECKING

from millstream.assembly.reload.adoption import Adoption
from millstream.assembly.reload.channel import open_documents
from millstream.assembly.reload.observer import ReloadObserver, Unheard
from millstream.assembly.reload.own_file import OwnFile
from millstream.assembly.reload.precedence import Precedence
from millstream.assembly.reload.shared_document import SharedDocument
from millstream.config import LiveSettings, Loaded, Settings
from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AsyncExitStack

_log = get_logger(__name__)


class Reloader:
    """Loads the configuration again and hands it to `LiveSettings`; one a worker.

    What is broken is named, and changes nothing. Settings that were not loaded are not loaded
    again.
    """

    def __init__(self, configured: Settings | Loaded) -> None:
        self._loaded = configured if isinstance(configured, Loaded) else None
        if isinstance(configured, Settings):
            self.live = LiveSettings(configured)
        elif configured.document is None:
            self.live = LiveSettings(configured.settings)
        else:
            self.live = LiveSettings(configured.settings, source=configured.document.origin)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(
        self,
        stack: AsyncExitStack,
        *,
        several_workers: Callable[[], bool] = lambda: False,
        observer: ReloadObserver | None = None,
    ) -> None:
        """Follow the file and the others until ``stack`` ends; returns when up to date with both.

        Whoever is to hear of the changes has subscribed before. While there are
        ``several_workers``, no limits come that each of them would grant.
        """
        observer = observer or Unheard()
        observer.config_revision(self.live.revision)
        loaded = self._loaded
        if loaded is None:
            return
        settings = self.live.current.reload
        adoption = Adoption(self.live, loaded, several_workers=several_workers, observer=observer)
        precedence = Precedence(loaded.document, time_ns())
        stack.push_async_callback(self._close)
        shared = None
        if settings.url is not None:
            shared = SharedDocument(open_documents(settings), adoption, precedence)
            await self._up_to_date(shared)
        if settings.watch_file and loaded.path is not None:
            own = OwnFile(loaded.path, loaded.document, adoption, precedence, shared)
            self._begin(own.follow())

    async def _up_to_date(self, shared: SharedDocument) -> None:
        following = self._begin(shared.follow())
        up_to_date = asyncio.create_task(shared.up_to_date.wait())
        try:
            # A fault that ends the one keeps no server from starting.
            await asyncio.wait([up_to_date, following], return_when=asyncio.FIRST_COMPLETED)
        finally:
            up_to_date.cancel()

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(_report)
        self._tasks.add(task)
        return task

    async def _close(self) -> None:
        tasks, self._tasks = self._tasks, set()
        while tasks:
            for task in tasks:
                task.cancel()
            # Again if need be: the address may name a time limit, and then the client may lose a
            # cancellation (`Documents`).
            _, tasks = await asyncio.wait(tasks, timeout=1)


def _report(task: asyncio.Task[None]) -> None:
    """Nobody waits for the task: what ends it is told, as no change is noticed from then on."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("config_not_followed", error=error)
