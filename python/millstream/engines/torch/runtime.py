"""The directory in which an engine process and its workers find each other."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path

from millstream.engines.torch.options import EngineOptions
from millstream.engines.torch.protocol import PROTOCOL_VERSION
from millstream.errors import ConfigError

EXIT_ALREADY_RUNNING = 3
"""Exit status of an engine process: another one holds the lock."""

_MAX_SOCKET_PATH_BYTES = 100
"""Below the kernel's 108, with room for another system's 104."""

_LOG_TAIL_BYTES = 4096


class RuntimeDirectory:
    """Socket, locks and log of one engine; mode 0700 and owned by this user."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = path / "engine.sock"
        self.lock = path / "engine.lock"
        self.spawn_lock = path / "spawn.lock"
        self.log = path / "engine.log"

    def prepare(self) -> None:
        """Make the directory if it is not there.

        Raises `ConfigError` if its path is too long for a socket, or if somebody else could read
        or replace what is in it.
        """
        if len(os.fsencode(self.socket)) > _MAX_SOCKET_PATH_BYTES:
            raise ConfigError(f"{self.socket} is too long for a Unix socket")
        with suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        state = self.path.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid():
            raise ConfigError(f"{self.path} is not a directory of this user")
        if state.st_mode & 0o077:
            raise ConfigError(f"{self.path} must not be open to others (mode 0700)")

    def log_tail(self) -> str:
        """The end of the engine's log, for a message about a failed start."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
                return file.read().decode(errors="replace").strip()
        except OSError:
            return ""


def runtime_directory(
    options: EngineOptions, environment: Mapping[str, str] | None = None
) -> RuntimeDirectory:
    """The place of the engine with these options, the same for every process of this user.

    ``XDG_RUNTIME_DIR`` holds it where that exists, ``/tmp`` otherwise. Another version of
    Millstream has another place: after an upgrade nobody meets a process of the old code.
    """
    environment = os.environ if environment is None else environment
    base = environment.get("XDG_RUNTIME_DIR", "")
    if not os.path.isdir(base):
        base = "/tmp"  # noqa: S108 - prepare() checks the owner
    identity = f"{_version()} {PROTOCOL_VERSION} {options.to_json()}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return RuntimeDirectory(Path(base) / f"millstream-{os.geteuid()}-{digest}")


def _version() -> str:
    try:
        return metadata.version("millstream")
    except metadata.PackageNotFoundError:  # run from a source tree
        return "source"


def take_lock(path: Path) -> int | None:
    """An open descriptor that holds the lock, or None if another process has it.

    The kernel lets go of it when the last copy of the descriptor is closed, so a lock is never
    stale, however its holder ended.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def holding(path: Path) -> Iterator[bool]:
    """Hold the lock for a while; says whether it was free."""
    descriptor = take_lock(path)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)
