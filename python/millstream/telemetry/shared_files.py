"""Where the workers of one server keep their counts, so that any of them answers for all.

Each server instance has a directory named after its main process and that process's start, so
that a recycled pid never finds another server's counts.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
from pathlib import Path

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def metrics_directory() -> Path:
    """The directory of this server instance, made if need be; the environment may name another.

    Directories of servers that are gone are removed. Raises `OSError`.
    """
    if named := os.environ.get(VARIABLE):
        directory = Path(named)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return directory
    root = _private_root()
    _remove_orphans(root)
    parent = multiprocessing.parent_process()
    server = os.getpid() if parent is None or parent.pid is None else parent.pid
    directory = root / f"{server}-{_start_ticks(server)}"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def remove_dead_gauges(directory: Path) -> None:
    """Removes the live gauges of processes that are gone; their counters stay."""
    for file in directory.glob("gauge_live*_*.db"):
        pid = file.stem.rpartition("_")[2]
        if pid.isdigit() and not _alive(int(pid)):
            file.unlink(missing_ok=True)


def _private_root() -> Path:
    """A directory of this user alone: counts must not be somebody else's to write."""
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    root = base / f"millstream-metrics-{os.getuid()}"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = root.stat(follow_symlinks=False)
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{root} must belong to this user alone (mode 0700)")
    return root


def _remove_orphans(root: Path) -> None:
    for directory in root.iterdir():
        pid, _, start = directory.name.partition("-")
        if pid.isdigit() and _start_ticks(int(pid)) != start:
            shutil.rmtree(directory, ignore_errors=True)


def _start_ticks(pid: int) -> str:
    """When the process started, in clock ticks since boot; empty if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The second field may hold spaces and parentheses: count from the last one.
    return text.rpartition(")")[2].split()[19]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
