"""The API keys that hold now."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from millstream.errors import ConfigError, NotAuthenticated
from millstream.identity.api_keys import holds, prefix_of
from millstream.identity.key_file import Keys, read_keys
from millstream.identity.principal import Principal
from millstream.telemetry.logging import get_logger

_log = get_logger(__name__)

WRONG_KEY = "The API key is not valid."

Stamp = tuple[int, int, int]


class KeyRing:
    """Tells whose key it is, by a file that may change at any time.

    The file's stamp is looked at for every key (a microsecond), so what `millstream keys` has
    written holds from the next request on. A file that is broken, or that may not be read, leaves
    the keys as they were, and says so once; one that is gone leaves none.
    """

    def __init__(self, path: Path, *, wall_clock: Callable[[], float] = time.time) -> None:
        """Reads the file; ``wall_clock`` is in unix seconds. Raises `ConfigError`."""
        self._path = path
        self._wall_clock = wall_clock
        self._stamp = self._look()
        self._keys: Keys = read_keys(path)
        self._unread: str | None = None
        """Why the file could not be read; then nothing of its stamp tells that it can be."""

    def authenticate(self, key: str) -> Principal:
        """Whose key this is.

        Raises `NotAuthenticated`, whose message is the same for a key that never was, one that is
        revoked and one that has expired; its ``reason`` tells them apart.
        """
        prefix = prefix_of(key)
        if prefix is None:
            raise NotAuthenticated(WRONG_KEY, reason="malformed")
        record = self._current().get(prefix)
        held = holds(key, record)
        if record is None or not held:
            raise NotAuthenticated(WRONG_KEY, reason="unknown_key", subject=prefix)
        if reason := record.refusal(self._wall_clock()):
            raise NotAuthenticated(WRONG_KEY, reason=reason, subject=prefix)
        return Principal(
            "key", prefix, record.tenant, record.role, record.scopes, record.expires_at
        )

    def _current(self) -> Keys:
        stamp = self._look()
        if stamp != self._stamp or self._unread is not None:
            # Before reading: a change while it is read is seen by the next one who asks.
            self._stamp = stamp
            self._read()
        return self._keys

    def _read(self) -> None:
        before, self._unread = self._unread, None
        if self._stamp is None:
            self._keys = {}
            _log.error("api_keys_gone", path=str(self._path))
            return
        try:
            self._keys = read_keys(self._path)
        except ConfigError as error:
            problem = str(error)
            if isinstance(error.__cause__, OSError):
                self._unread = problem
            if problem != before:
                _log.error("api_keys_not_read", problem=problem)
        else:
            _log.info("api_keys_read", path=str(self._path), keys=len(self._keys))

    def _look(self) -> Stamp | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size
