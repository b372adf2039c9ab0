"""The HTTP of durable streams."""

from __future__ import annotations

from millstream.api.durable.headers import EXPOSED_HEADERS
from millstream.api.durable.routes import router
from millstream.api.durable.service import DurableService, new_registry

__all__ = ["EXPOSED_HEADERS", "DurableService", "new_registry", "router"]
