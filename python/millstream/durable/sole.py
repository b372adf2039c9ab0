"""Streams in memory are right in one worker only: which one that is, a lock decides."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class SoleWorker:
    """Nothing tells an app under the user's own Granian how many workers there are.

    ``directory`` belongs to one server. The lock of a worker that dies is free at once.
    """

    def __init__(self, directory: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(directory / "durable.lock", flags, 0o600)
        self._held = False

    def held(self) -> bool:
        """Whether this worker is the one; takes the lock if nobody has it."""
        if not self._held:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            self._held = True
        return True

    def close(self) -> None:
        """Let another one be it; once only."""
        self._held = False
        os.close(self._descriptor)
