"""What one tenant has otherwise than all."""

from __future__ import annotations

from millstream.config.section import Section
from millstream.config.streams import StreamOverrides


class TenantSettings(Section):
    """One tenant; `default` is whoever has not said who they are."""

    streams: StreamOverrides = StreamOverrides()
    """How this tenant's streams are kept and watched."""
