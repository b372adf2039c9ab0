"""The configuration: a tree of frozen settings from TOML, environment and command line."""

from __future__ import annotations

from millstream.config.audit import AuditSettings
from millstream.config.auth import AuthSettings, ClaimSettings, JwtSettings
from millstream.config.document import Document
from millstream.config.durable import DurableSettings
from millstream.config.engines import DEMO_MODEL, TorchEngineSettings
from millstream.config.limiter import LimiterSettings
from millstream.config.limits import (
    BytesLimit,
    LimitSettings,
    QueueLimit,
    RequestLimit,
    TokenLimit,
)
from millstream.config.live import LiveSettings
from millstream.config.load import Loaded, load, load_settings
from millstream.config.models import ModelSettings, RouteSettings, TimeoutOverrides, TimeoutSettings
from millstream.config.reload import ReloadSettings
from millstream.config.server import LogSettings, ServerSettings
from millstream.config.settings import Settings
from millstream.config.show import to_toml
from millstream.config.store import StoreSettings
from millstream.config.streams import StreamOverrides, StreamPolicy, StreamSettings
from millstream.config.tenants import TenantSettings

__all__ = [
    "DEMO_MODEL",
    "AuditSettings",
    "AuthSettings",
    "BytesLimit",
    "ClaimSettings",
    "Document",
    "DurableSettings",
    "JwtSettings",
    "LimitSettings",
    "LimiterSettings",
    "LiveSettings",
    "Loaded",
    "LogSettings",
    "ModelSettings",
    "QueueLimit",
    "ReloadSettings",
    "RequestLimit",
    "RouteSettings",
    "ServerSettings",
    "Settings",
    "StoreSettings",
    "StreamOverrides",
    "StreamPolicy",
    "StreamSettings",
    "TenantSettings",
    "TimeoutOverrides",
    "TimeoutSettings",
    "TokenLimit",
    "TorchEngineSettings",
    "load",
    "load_settings",
    "to_toml",
]
