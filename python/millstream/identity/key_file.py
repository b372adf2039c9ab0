"""The file of API keys: a JSON object a line, made for its owner alone.

It is replaced as a whole, under a lock, so that readers see the old keys or the new ones and two
commands at once lose nothing.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from millstream.errors import ConfigError
from millstream.identity.api_keys import ApiKey

Keys = dict[str, ApiKey]
"""By prefix."""

_DECODER = msgspec.json.Decoder(ApiKey)


def read_keys(path: Path) -> Keys:
    """Every key of the file; raises `ConfigError`, which names the line, never its content."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    keys: Keys = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            key = _DECODER.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: line {number}: is not a key: {error}") from None
        if key.prefix in keys:
            raise ConfigError(f"{path}: line {number}: {key.prefix} is there twice")
        keys[key.prefix] = key
    return keys


@contextmanager
def changing(path: Path) -> Iterator[Keys]:
    """The keys of the file, to be changed in the block; at its end they replace the file.

    A file that is not there has no keys. Waits for other commands that change a file of this
    folder. Raises `ConfigError`.
    """
    # What a link names is replaced, not the link.
    path = Path(os.path.realpath(path))
    try:
        with _locked(path.parent):
            keys = read_keys(path) if path.exists() else {}
            yield keys
            _replace(path, keys)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Alone in this folder: the file itself is another one after each change."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, keys: Keys) -> None:
    # `mkstemp` makes it with mode 0600.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(b"".join(msgspec.json.encode(key) + b"\n" for key in keys.values()))
            file.flush()
            if path.exists():
                # Root may write it for the server's own user or group, who still has to read it.
                status = path.stat()
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """A revocation must outlive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
