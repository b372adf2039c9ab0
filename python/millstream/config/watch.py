"""Notices that a file has changed, however it is written: in place, by renaming, by links."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from watchfiles import awatch

STEP_MS = 25
"""How often it is looked for news of the kernel; each look takes the interpreter for a moment."""
SETTLE_SECONDS = 0.02
"""A file that is the same after this is not being written."""
UNSETTLED_SECONDS = 1.0
"""One that never is, is taken as it is then."""
POLL_MS = 1000
"""How often the file is looked at anyhow: not every file system and no ancestor's link tells."""
_MOST_LINKS = 40

Signature = tuple[int, ...] | None


async def changes(path: Path) -> AsyncGenerator[None]:
    """Once at the beginning, and then after every change of the file or of where it is.

    Its folder is watched, not the file: a file that replaces another one is another file.
    """
    seen: Signature = ()
    while True:
        folders = _folders(path)
        async with aclosing(_ticks(folders)) as ticks:
            async for _ in ticks:
                found = await _at_rest(path, seen)
                if found != seen:
                    seen = found
                    yield
                if _folders(path) != folders:
                    break


async def _ticks(folders: tuple[Path, ...]) -> AsyncGenerator[None]:
    """At once, and then whenever something happens in one of the folders, or a while has passed."""
    yield
    try:
        async for _ in awatch(
            *folders,
            watch_filter=None,
            debounce=4 * STEP_MS,
            step=STEP_MS,
            rust_timeout=POLL_MS,
            yield_on_timeout=True,
            recursive=False,
        ):
            yield
    except OSError:
        # A folder is gone or must not be read, or the kernel watches too many.
        await asyncio.sleep(POLL_MS / 1000)


async def _at_rest(path: Path, seen: Signature) -> Signature:
    found = await asyncio.to_thread(_signature, path)
    looks = int(UNSETTLED_SECONDS / SETTLE_SECONDS)
    while found != seen and looks:
        await asyncio.sleep(SETTLE_SECONDS)
        before, found = found, await asyncio.to_thread(_signature, path)
        looks = 0 if before == found else looks - 1
    return found


def _signature(path: Path) -> Signature:
    """What differs after every change; None if there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return None
    times = status.st_mtime_ns, status.st_ctime_ns
    return (status.st_dev, status.st_ino, status.st_size, *times)


def _folders(path: Path) -> tuple[Path, ...]:
    """The folder of the file and of every link on the way to it, as they are now."""
    folders: list[Path] = []
    step = path.absolute()
    for _ in range(_MOST_LINKS):
        folders.append(step.parent.resolve())
        if not step.is_symlink():
            break
        step = step.parent / os.readlink(step)
    return tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))
