"""From the settings to the document that instances share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.config.extras import needed_by
from millstream.errors import ConfigError

if TYPE_CHECKING:
    from millstream.config import ReloadSettings
    from millstream.store.valkey.documents import Documents


def open_documents(settings: ReloadSettings) -> Documents:
    """The document that instances share; raises `ConfigError` if it cannot be had at all."""
    if settings.url is None:
        raise ConfigError("reload.url is not set: it names the Valkey that instances share")
    with needed_by("reload.url", "valkey"):
        from millstream.store.valkey.documents import Documents
    return Documents(settings.url, settings.channel)
