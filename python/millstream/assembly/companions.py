"""Whether this worker is alone: a lock file each, since nothing tells an app under Granian."""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATTERN = "worker-*.lock"
_POLL_SECONDS = 0.05


class Companions:
    """The other workers of the server that ``directory`` belongs to."""

    def __init__(self, directory: Path, own: Path) -> None:
        self._directory = directory
        self._own = own

    def several(self) -> bool:
        """Whether another worker lives at this moment; some 20 µs."""
        return any(path != self._own and _held(path) for path in self._directory.glob(_PATTERN))

    async def left_alone(self, patience_seconds: float) -> bool:
        """Whether no other worker lives, once this time has passed or before.

        A worker that takes the place of one that has just died may still see it.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience_seconds
        while self.several():
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True


@contextmanager
def companions(directory: Path) -> Iterator[Companions]:
    """Be seen by the others, and see them; a dead worker's lock is free at once. Raises OSError."""
    # A name of its own: two apps may share a process, and wait for nobody.
    descriptor, name = tempfile.mkstemp(prefix="worker-", suffix=".lock", dir=directory)
    own = Path(name)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield Companions(directory, own)
    finally:
        own.unlink(missing_ok=True)
        os.close(descriptor)


def _held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
