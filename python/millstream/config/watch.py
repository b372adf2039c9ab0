"""Notices that a file has changed, however it is written: in place, by renaming, by links."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import NamedTuple

from watchfiles import awatch

STEP_MS = 10
"""How often it is looked for news of the kernel, which are given when the second look finds no
more; each look takes the interpreter for a moment.
"""
SETTLE_SECONDS = 0.02
"""A file that has not been written to for so long, or is the same after it, is whole."""
UNSETTLED_SECONDS = 1.0
"""One that never is, is taken as it is then."""
POLL_MS = 1000
"""How often the file is looked at anyhow: not every file system and no ancestor's link tells."""
_MOST_LINKS = 40


class _Version(NamedTuple):
    """What differs after every change; the times are in unix nanoseconds."""

    device: int
    inode: int
    size: int
    written_ns: int
    changed_ns: int


Signature = _Version | None
"""None if there is no file."""
_NEVER = _Version(0, 0, -1, 0, 0)


async def changes(path: Path) -> AsyncGenerator[None]:
    """Once at the beginning, and then after every change of the file or of where it is.

    Its folder is watched, not the file: a file that replaces another one is another file.
    """
    seen: Signature = _NEVER
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
    while found != seen and looks and (unsettled_seconds := _unsettled_seconds(found)):
        await asyncio.sleep(unsettled_seconds)
        before, found = found, await asyncio.to_thread(_signature, path)
        looks = 0 if before == found else looks - 1
    return found


def _unsettled_seconds(found: Signature) -> float:
    """How long it has to stay as it is; a clock that is behind the file's says nothing."""
    if found is None:
        return SETTLE_SECONDS
    age_seconds = max(0, time.time_ns() - found.written_ns) / 1e9
    return max(0.0, SETTLE_SECONDS - age_seconds)


def _signature(path: Path) -> Signature:
    try:
        found = path.stat()
    except OSError:
        return None
    times = found.st_mtime_ns, found.st_ctime_ns
    return _Version(found.st_dev, found.st_ino, found.st_size, *times)


def _folders(path: Path) -> tuple[Path, ...]:
    """The folder of the file and of every link on the way to it, as they are now."""
    folders: list[Path] = []
    step = path.absolute()
    # A link may be swapped while it is followed, and links may lead in a circle.
    with suppress(OSError, RuntimeError):
        for _ in range(_MOST_LINKS):
            folders.append(step.parent.resolve())
            if not step.is_symlink():
                break
            step = step.parent / os.readlink(step)
    return tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))
