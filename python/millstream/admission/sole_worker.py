"""Limits in memory are right for one worker only: the proof that there is no second one."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from millstream.errors import ConfigError

PATIENCE_SECONDS = 5.0
_POLL_SECONDS = 0.05


@asynccontextmanager
async def sole_worker(
    directory: Path, *, patience_seconds: float = PATIENCE_SECONDS
) -> AsyncIterator[None]:
    """Be the only worker of the server that ``directory`` belongs to.

    Nothing tells an app under the user's own Granian how many workers there are, so a lock does.
    A worker that takes the place of one that has just died waits for ``patience_seconds``. Raises
    `ConfigError` if the other one stays: each would grant every limit in full.
    """
    descriptor = os.open(directory / "limits.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = asyncio.get_running_loop().time() + patience_seconds
        while not _locked(descriptor):
            if asyncio.get_running_loop().time() >= deadline:
                raise ConfigError(
                    "limits are kept in the memory of one worker, and this server has several: "
                    "each would grant every limit in full. Set server.workers = 1 (or Granian's "
                    "--workers 1), or remove the limits."
                )
            await asyncio.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
