"""Puts new settings in force while the server runs: from its file, and from other instances."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

from millstream.admission import sole_worker
from millstream.assembly.limits import book_of, limited
from millstream.config import Document, LiveSettings, Loaded, Settings
from millstream.config.sources import read_document
from millstream.config.watch import changes
from millstream.errors import ConfigError, StoreUnavailable
from millstream.telemetry.logging import get_logger
from millstream.telemetry.shared_files import metrics_directory

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from millstream.config import ReloadSettings
    from millstream.config.live import Change
    from millstream.store.valkey.documents import Documents

_log = get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
LATE_NS = 2_000_000_000
"""How late a change of the file may be noticed."""


class Reloader:
    """Loads the configuration again and hands it to `LiveSettings`; one a worker.

    At the start and after a lost connection the newer of two holds: the file by its time of
    modification, or the document that instances share. After that each change holds as it comes,
    and one of the file is told to the others. What is broken is named, and changes nothing.
    Settings that were not loaded are not loaded again.
    """

    def __init__(self, configured: Settings | Loaded) -> None:
        self._loaded = configured if isinstance(configured, Loaded) else None
        if isinstance(configured, Settings):
            self.live = LiveSettings(configured)
        elif configured.document is None:
            self.live = LiveSettings(configured.settings)
        else:
            self.live = LiveSettings(configured.settings, source=configured.document.origin)
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._documents: Documents | None = None

    async def start(self, stack: AsyncExitStack) -> None:
        """Follow the file and the others until ``stack`` ends; returns when up to date with both.

        Whoever is to hear of the changes has subscribed before.
        """
        loaded, settings = self._loaded, self.live.current
        if loaded is None:
            return
        self._stack = stack
        # The worker knows to be alone if it had to.
        self._alone = settings.limiter.kind != "memory" or limited(settings)
        self._seen = loaded.document
        self._held_ns = 0 if loaded.document is None else loaded.document.written_ns
        self._applied = None if loaded.document is None else loaded.document.text
        self._handled: Document | None = None
        self._untold: Document | None = None
        self._connected: bool | None = None
        stack.push_async_callback(self._close)
        if settings.reload.url is not None:
            self._documents = open_documents(settings.reload)
            up_to_date = asyncio.get_running_loop().create_future()
            following = self._begin(self._follow_documents(self._documents, up_to_date))
            await asyncio.wait([up_to_date, following], return_when=asyncio.FIRST_COMPLETED)
        if settings.reload.watch_file and loaded.path is not None:
            self._begin(self._follow_file(loaded.path))

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

    # --- the file -------------------------------------------------------------------------------

    async def _follow_file(self, path: Path) -> None:
        async with aclosing(changes(path)) as ticks:
            async for _ in ticks:
                async with self._lock:
                    await self._file_changed(path)

    async def _file_changed(self, path: Path) -> None:
        try:
            document = await asyncio.to_thread(read_document, path)
        except ConfigError as error:
            self._refuse(str(path), error)
            return
        if document == self._seen:
            return
        self._seen = document
        if not document.text.strip():
            # Half written, most likely; and its tenants would all be gone.
            self._refuse(str(path), ConfigError("is empty"))
        elif self._in_force(document):
            # Another worker of this file was faster, and has told of it. What has been pushed since
            # then may not have been heard of here: to tell again would bring this back.
            return
        elif self._superseded(document):
            _log.warning("config_superseded", source=document.origin, by=self.live.source)
        elif await self._apply(document):
            # It is newer than what has held so far, whatever the clocks say.
            self._held_ns = max(time_ns(), self._held_ns + 1)
            self._untold = Document(self._held_ns, document.text, document.origin)
            await self._tell()

    def _superseded(self, document: Document) -> bool:
        """Whether a document came just after this change of the file, which was noticed later.

        Each worker of a file notices by itself, and none may bring back what another instance has
        replaced in between. A file that is much older has been put there now.
        """
        return (
            document.text != self._applied
            and self._handled is not None
            and self._handled.written_ns == self._held_ns
            and 0 < self._held_ns - document.written_ns < LATE_NS
        )

    async def _tell(self) -> None:
        """Hand a change of the file to the others, later if they cannot be reached now."""
        if self._documents is None or self._untold is None:
            return
        try:
            if await self._documents.publish(self._untold):
                _log.info("config_published", source=self._untold.origin)
        except StoreUnavailable as error:
            _log.warning("config_not_published", reason=str(error))
        else:
            self._untold = None

    # --- the others -----------------------------------------------------------------------------

    async def _follow_documents(
        self, documents: Documents, up_to_date: asyncio.Future[None]
    ) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                async with aclosing(documents.news()) as news:
                    async for new in news:
                        async with self._lock:
                            await self._told(documents, new=new)
                        self._reached()
                        pause = FIRST_PAUSE_SECONDS
                        _done(up_to_date)
            except StoreUnavailable as error:
                self._lost(error)
            _done(up_to_date)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _told(self, documents: Documents, *, new: bool) -> None:
        await self._tell()
        try:
            document = await documents.read()
        except ConfigError as error:
            self._refuse("document", error)
            return
        if document is None or document == self._handled:
            return
        if new or document.written_ns > self._held_ns:
            self._handled = document
            if await self._apply(document):
                self._held_ns = document.written_ns

    def _reached(self) -> None:
        if self._connected is False:
            _log.info("config_channel_up")
        self._connected = True

    def _lost(self, error: StoreUnavailable) -> None:
        if self._connected is not False:
            _log.warning("config_channel_down", reason=str(error))
        self._connected = False

    # --- both -----------------------------------------------------------------------------------

    async def _apply(self, document: Document) -> bool:
        """Put the settings of this document in force; False if they cannot be."""
        if self._loaded is None:
            return False
        if self._in_force(document):
            # The news of our own change, or of the same file at another worker.
            return True
        needed = self.live.restart_needed
        try:
            change = await asyncio.to_thread(self._change, self._loaded, document)
            await self._be_alone(change.settings)
            changed = self.live.replace(change, source=document.origin)
        except ConfigError as error:
            self._refuse(document.origin, error)
            return False
        except Exception as error:
            _log.error("config_failed", error=error, source=document.origin)
            self._refuse(document.origin, error)
            return False
        self._applied = document.text
        if changed:
            _log.info("config_reloaded", revision=self.live.revision, source=document.origin)
        if self.live.restart_needed and self.live.restart_needed != needed:
            keys = ", ".join(self.live.restart_needed)
            _log.warning("config_needs_restart", keys=keys, source=document.origin)
        return True

    def _in_force(self, document: Document) -> bool:
        return document.text == self._applied and self.live.last_error is None

    def _change(self, loaded: Loaded, document: Document) -> Change:
        """All that takes long, in a thread; raises `ConfigError`."""
        change = self.live.change(loaded.again(document).settings)
        book_of(change.settings)
        return change

    async def _be_alone(self, settings: Settings) -> None:
        """Raises `ConfigError` for limits that another worker would grant once more."""
        if not self._alone and limited(settings):
            await self._stack.enter_async_context(
                sole_worker(metrics_directory(), patience_seconds=0)
            )
            self._alone = True

    def _refuse(self, source: str, error: Exception) -> None:
        reason = self.live.refuse(source, str(error) or type(error).__name__)
        _log.warning("config_refused", reason=reason, revision=self.live.revision)


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _report(task: asyncio.Task[None]) -> None:
    """Nobody waits for the task: what ends it is told, as no change is noticed from then on."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("config_not_followed", error=error)


def open_documents(settings: ReloadSettings) -> Documents:
    """The document that instances share; raises `ConfigError` if it cannot be had at all."""
    if settings.url is None:
        raise ConfigError("reload.url is not set: it names the Valkey that instances share")
    try:
        from millstream.store.valkey.documents import Documents
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "valkey":
            raise
        raise ConfigError(
            'reload.url needs the package `valkey`: pip install "millstream[valkey]"'
        ) from error
    return Documents(settings.url, settings.channel)
