"""Puts a document in force, or says why it cannot be."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from millstream.assembly.admission import granted_by_each
from millstream.assembly.limits import check_limits, counted_here
from millstream.errors import ConfigError
from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.assembly.reload.observer import ReloadObserver, ReloadSource
    from millstream.config import Document, LiveSettings, Loaded, Settings
    from millstream.config.live import Change

_log = get_logger(__name__)


class Adoption:
    """The one way to other settings; whoever takes it holds ``turn`` meanwhile.

    ``loaded`` is what runs. While there are ``several_workers``, no limits come that each of them
    would grant.
    """

    def __init__(
        self,
        live: LiveSettings,
        loaded: Loaded,
        *,
        several_workers: Callable[[], bool],
        observer: ReloadObserver,
    ) -> None:
        self.live = live
        self.turn = asyncio.Lock()
        self._loaded = loaded
        self._several_workers = several_workers
        self._observer = observer

    def in_force(self, document: Document) -> bool:
        """Whether it says what holds already, and nothing else was tried since."""
        holds = self._loaded.document
        said = holds is not None and holds.text == document.text
        return said and self.live.last_error is None

    async def adopt(self, document: Document, source: ReloadSource) -> bool:
        """Put its settings in force; False if they cannot be."""
        if self.in_force(document):
            # The news of our own change, or of the same file at another worker.
            self._observer.config_reloaded(source, "unchanged")
            return True
        needed = self.live.restart_needed
        try:
            loaded, change = await asyncio.to_thread(self._prepared, document)
            self._check_alone(change.settings)
            changed = self.live.replace(change, source=document.origin)
        except ConfigError as error:
            self.refuse(document.origin, error, source)
            return False
        except Exception as error:
            _log.error("config_failed", error=error, source=document.origin)
            self.refuse(document.origin, error, source)
            return False
        self._loaded = loaded
        self._observer.config_revision(self.live.revision)
        self._observer.config_reloaded(source, "applied" if changed else "unchanged")
        if changed:
            _log.info("config_reloaded", revision=self.live.revision, source=document.origin)
        if self.live.restart_needed and self.live.restart_needed != needed:
            keys = ", ".join(self.live.restart_needed)
            _log.warning("config_needs_restart", keys=keys, source=document.origin)
        return True

    def refuse(self, origin: str, error: Exception, source: ReloadSource) -> None:
        """Say that what is there is not taken, and why."""
        reason = self.live.refuse(origin, str(error) or type(error).__name__)
        self._observer.config_reloaded(source, "refused")
        _log.warning("config_refused", reason=reason, revision=self.live.revision)

    def supersede(self, document: Document) -> None:
        """Say that it is not taken, as something newer holds."""
        _log.warning("config_superseded", source=document.origin, by=self.live.source)
        self._observer.config_reloaded("file", "superseded")

    def _prepared(self, document: Document) -> tuple[Loaded, Change]:
        """All that takes long, in a thread; raises `ConfigError`."""
        loaded = self._loaded.again(document)
        change = self.live.change(loaded.settings)
        check_limits(change.settings)
        return loaded, change

    def _check_alone(self, settings: Settings) -> None:
        """Raises `ConfigError` for limits that another worker would grant once more."""
        # Where there were limits before, a worker that came later has not started.
        come = counted_here(settings) and not counted_here(self.live.current)
        if come and self._several_workers():
            raise granted_by_each()
