"""From the settings to whoever checks credentials."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from millstream.errors import ConfigError
from millstream.identity.authenticator import Authenticator
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
    return Authenticator(current, keys=_keys(auth.keys_file))


def _keys(file: str | None) -> KeyRing | None:
    if file is None:
        return None
    try:
        return KeyRing(Path(file))
    except ConfigError as error:
        raise ConfigError(f"auth.keys_file: {error}; `millstream keys create` makes it") from error
