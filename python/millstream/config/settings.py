"""The whole configuration: one frozen tree, whose parts are handed to those who need them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from millstream.config.audit import AuditSettings
from millstream.config.auth import AuthSettings
from millstream.config.durable import DurableSettings
from millstream.config.engines import TorchEngineSettings
from millstream.config.limiter import LimiterSettings
from millstream.config.limits import LimitSettings
from millstream.config.models import ModelSettings, TimeoutSettings
from millstream.config.reload import ReloadSettings
from millstream.config.section import Section
from millstream.config.server import LogSettings, ServerSettings
from millstream.config.store import StoreSettings
from millstream.config.streams import StreamPolicy, StreamSettings, policy_of
from millstream.config.tenants import TenantSettings

EngineName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
TenantName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./:-]{0,127}$")]


class Settings(Section):
    """Everything that can be set. Build it with `load_settings`, which also checks it as a whole.

    Without a configuration: one torch engine `local` with the demo model, served under its name.
    """

    server: ServerSettings = ServerSettings()
    """The listening socket and the workers."""
    log: LogSettings = LogSettings()
    """The server's own log."""
    engines: Annotated[dict[EngineName, TorchEngineSettings], Field(min_length=1)]
    """Engines by the name that routes use."""
    models: Annotated[dict[ModelName, ModelSettings], Field(min_length=1)]
    """Models by the name that clients use."""
    limits: LimitSettings = LimitSettings()
    """What all clients of the whole server may use together."""
    limiter: LimiterSettings = LimiterSettings()
    """Where limits are counted."""
    auth: Annotated[AuthSettings, Field(default_factory=AuthSettings)]
    """Who may call, and what they may do."""
    streams: StreamSettings = StreamSettings()
    """How streams are kept and watched."""
    store: StoreSettings = StoreSettings()
    """Where streams outlive their connections."""
    tenants: Annotated[dict[TenantName, TenantSettings], Field(default_factory=dict)]
    """Tenants by name."""
    durable: DurableSettings = DurableSettings()
    """Bounds of the durable streams."""
    audit: AuditSettings = AuditSettings()
    """What is written of who did what."""
    reload: ReloadSettings = ReloadSettings()
    """How changes reach a running server."""

    def stream_policy(self, tenant: str, model: str) -> StreamPolicy:
        """What holds for this tenant's streams of this model: the tenant's word goes first."""
        overrides = [self.models[model].streams] if model in self.models else []
        if tenant in self.tenants:
            overrides.append(self.tenants[tenant].streams)
        return policy_of(self.streams, *overrides)

    def timeouts(self, tenant: str, model: str) -> TimeoutSettings:
        """How long this tenant's streams of this model may take: the tenant's word goes first."""
        served = self.models[model].timeouts if model in self.models else TimeoutSettings()
        if tenant not in self.tenants:
            return served
        own = self.tenants[tenant].timeouts.model_dump(exclude_none=True)
        return served.model_copy(update=own) if own else served
