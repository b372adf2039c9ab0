"""A worker whose server is gone leaves too."""

from __future__ import annotations

import multiprocessing
import os
import signal


class OrphanWatch:
    """Tells this process to leave (SIGTERM) once the server that started it as its worker has died.

    Killed outright, a server tells its workers nothing: they would serve on, hold the port against
    the next one and keep the engine alive. A process that nobody started as a worker is left alone.
    """

    def __init__(self) -> None:
        parent = multiprocessing.parent_process()
        self._parent = None if parent is None else parent.pid

    def sweep(self, now_ns: int) -> None:
        """Look once; ``now_ns`` does not matter."""
        if self._parent is not None and os.getppid() != self._parent:
            self._parent = None
            os.kill(os.getpid(), signal.SIGTERM)
