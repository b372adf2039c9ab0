"""Where the keys come from that tokens are checked with, and when they are looked at again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from millstream.errors import ConfigError
from millstream.identity.jwks_url import JwksUrl, take_keys
from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from millstream._core import JwtVerifier
    from millstream.config.auth import JwtSettings

_log = get_logger(__name__)

LOOK_NS = 1_000_000_000
"""How often a file is looked at; an unknown key looks at once."""


class KeySource(Protocol):
    """Keeps the keys of a verifier up to date."""

    @property
    def revision(self) -> int:
        """How often the keys have changed."""
        ...

    async def start(self) -> None:
        """Load the keys; ConfigError if that can never succeed as things are configured."""
        ...

    async def close(self) -> None:
        """Let go of what is open."""
        ...

    async def prepare(self) -> None:
        """Have keys in place that may be used now; KeysUnavailable if there are none."""
        ...

    async def changed_since(self, revision: int) -> bool:
        """After an unknown key: whether others are in place now, looking for them if need be."""
        ...


class Secret:
    """The secret of HS256, which never changes while the server runs."""

    revision = 0

    def __init__(self, variable: str, verifier: JwtVerifier, environ: Mapping[str, str]) -> None:
        self._variable = variable
        self._verifier = verifier
        self._environ = environ

    async def start(self) -> None:
        """Take the secret; ConfigError if the variable is not set or too short."""
        secret = self._environ.get(self._variable)
        if secret is None:
            raise ConfigError(f"auth.jwt.secret_env: the variable {self._variable} is not set")
        try:
            self._verifier.replace_secret(secret.encode("utf-8", "surrogateescape"))
        except ValueError as error:
            raise ConfigError(f"auth.jwt.secret_env: {self._variable}: {error}") from error

    async def close(self) -> None:
        """Nothing is open."""

    async def prepare(self) -> None:
        """The secret is in place since the start."""

    async def changed_since(self, revision: int) -> bool:
        """Never."""
        return False


_Version = tuple[int, int, int]


class JwksFile:
    """A key set in a file, read again whenever its time, size or inode changes.

    A file that is gone or broken leaves the keys as they are, and says so once.
    """

    def __init__(self, path: str, verifier: JwtVerifier, *, clock: Callable[[], int]) -> None:
        self.revision = 0
        self._path = path
        self._verifier = verifier
        self._clock = clock
        self._version: _Version | None = None
        self._told: str | None = None
        self._look_at_ns = 0

    async def start(self) -> None:
        """Read the file; ConfigError if it cannot be read, is broken or has no usable key."""
        try:
            self._read()
        except (OSError, ValueError) as error:
            raise ConfigError(f"auth.jwt.jwks_file: {self._path}: {error}") from error
        if self._verifier.key_count == 0:
            raise ConfigError(f"auth.jwt.jwks_file: {self._path}: no usable key")
        self._look_at_ns = self._clock() + LOOK_NS

    async def close(self) -> None:
        """Nothing is open."""

    async def prepare(self) -> None:
        """Look at the file, if that is a second ago."""
        now_ns = self._clock()
        if now_ns >= self._look_at_ns:
            self._look_at_ns = now_ns + LOOK_NS
            self._look()

    async def changed_since(self, revision: int) -> bool:
        """Look at once: a key may have been added since the last second."""
        self._look()
        return self.revision != revision

    def _look(self) -> None:
        try:
            if _version(os.stat(self._path)) != self._version:
                self._read()
                self._told = None
        except OSError as error:
            self._version = None
            self._tell(str(error))
        except ValueError as error:
            self._tell(str(error))

    def _tell(self, reason: str) -> None:
        if reason != self._told:
            self._told = reason
            _log.error("jwks_file_broken", path=self._path, reason=reason)

    def _read(self) -> None:
        """Raises OSError, or ValueError for what is no key set."""
        with open(self._path, "rb") as file:
            # Of the open file: the path may name another one by now.
            self._version = _version(os.fstat(file.fileno()))
            text = file.read()
        take_keys(self._verifier, text, source=self._path)
        self.revision += 1


def _version(status: os.stat_result) -> _Version:
    return status.st_mtime_ns, status.st_size, status.st_ino


def open_keys(
    settings: JwtSettings,
    verifier: JwtVerifier,
    *,
    clock: Callable[[], int],
    environ: Mapping[str, str],
) -> KeySource:
    """The source that the settings name; ``clock`` is monotonic, in nanoseconds."""
    if settings.secret_env is not None:
        return Secret(settings.secret_env, verifier, environ)
    if settings.jwks_file is not None:
        return JwksFile(settings.jwks_file, verifier, clock=clock)
    if settings.jwks_url is None:
        raise ConfigError("auth.jwt: needs `jwks_file`, `jwks_url` or `secret_env`")
    return JwksUrl(
        settings.jwks_url,
        verifier,
        cache_seconds=settings.cache_seconds,
        stale_seconds=settings.stale_seconds,
        clock=clock,
    )
