"""The configuration: a tree of frozen settings from TOML, environment and command line."""

from __future__ import annotations

from millstream.config.durable import DurableSettings
from millstream.config.engines import DEMO_MODEL, TorchEngineSettings
from millstream.config.limits import LimitSettings, RequestLimit, TokenLimit
from millstream.config.load import Loaded, load, load_settings
from millstream.config.models import ModelSettings, RouteSettings, TimeoutSettings
from millstream.config.server import LogSettings, ServerSettings
from millstream.config.settings import Settings
from millstream.config.show import to_toml
from millstream.config.store import StoreSettings
from millstream.config.streams import StreamOverrides, StreamPolicy, StreamSettings
from millstream.config.tenants import TenantSettings

__all__ = [
    "DEMO_MODEL",
    "DurableSettings",
    "LimitSettings",
    "Loaded",
    "LogSettings",
    "ModelSettings",
    "RequestLimit",
    "RouteSettings",
    "ServerSettings",
    "Settings",
    "StoreSettings",
    "StreamOverrides",
    "StreamPolicy",
    "StreamSettings",
    "TenantSettings",
    "TimeoutSettings",
    "TokenLimit",
    "TorchEngineSettings",
    "load",
    "load_settings",
    "to_toml",
]
