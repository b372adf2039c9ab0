"""How changes of the configuration reach a running server."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from millstream.config.section import Section


class ReloadSettings(Section):
    """Changes of tenants, limits, timeouts, stream policies and roles, without a restart."""

    watch_file: bool = True
    """Read the configuration file again when it changes."""
    url: Annotated[str | None, Field(pattern=r"^(valkey|valkeys|redis|rediss|unix)://")] = None
    """Valkey through which instances tell each other of a change; unset is none."""
    channel: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")] = "millstream:config"
    """Channel, and key of the latest configuration, in that Valkey."""
