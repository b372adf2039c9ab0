"""From the settings to whoever checks credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from millstream.errors import ConfigError
from millstream.identity.authenticator import Authenticator
from millstream.identity.jwt import JwtAuthenticator
from millstream.identity.key_ring import KeyRing

if TYPE_CHECKING:
    from millstream.config import Settings


def open_authenticator(current: Callable[[], Settings]) -> Authenticator:
    """The authenticator for these settings, still to be started.

    ``current`` gives the settings in force. Raises `ConfigError` for a file of keys that cannot
    be read.
    """
    auth = current().auth
    if auth.mode == "off":
        return Authenticator(current)
    tokens = None if auth.jwt is None else JwtAuthenticator(auth.jwt, auth.claims)
    return Authenticator(current, keys=_keys(auth.keys_file), tokens=tokens)


def require_credentials(settings: Settings) -> None:
    """Raise `ConfigError` for keys and secrets on this machine that no start could use."""
    authenticator = open_authenticator(lambda: settings)
    jwt = settings.auth.jwt
    # An address may not answer yet, which is no reason not to start.
    if settings.auth.mode == "required" and jwt is not None and jwt.jwks_url is None:
        asyncio.run(_try_start(authenticator))


async def _try_start(authenticator: Authenticator) -> None:
    try:
        await authenticator.start()
    finally:
        await authenticator.close()


def _keys(file: str | None) -> KeyRing | None:
    if file is None:
        return None
    try:
        return KeyRing(Path(file))
    except ConfigError as error:
        remedy = "" if Path(file).exists() else "; `millstream keys create` makes it"
        raise ConfigError(f"auth.keys_file: {error}{remedy}") from error
