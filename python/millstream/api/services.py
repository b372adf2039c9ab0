"""What the routes work with, put together by `millstream.app`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import time_ns
from typing import TYPE_CHECKING

from starlette.requests import Request

from millstream.errors import UnknownModel

if TYPE_CHECKING:
    from millstream.config import (
        LiveSettings,
        ModelSettings,
        ServerSettings,
        Settings,
        StreamPolicy,
        TimeoutSettings,
    )
    from millstream.engines.base import Engine
    from millstream.store.base import StreamStore
    from millstream.streams.deliveries import Deliveries
    from millstream.streams.directory import Directory
    from millstream.streams.drain import Drain
    from millstream.streams.orchestrator import Orchestrator
    from millstream.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A name that a client uses, the engine that answers for it, and what holds for its tenant.

    All of it is of one moment: what changes in the settings meanwhile is for the next request.
    """

    name: str
    engine: Engine
    settings: ModelSettings
    policy: StreamPolicy
    timeouts: TimeoutSettings


@dataclass(frozen=True, slots=True)
class Services:
    """One instance a worker."""

    live: LiveSettings
    engines: Mapping[str, Engine]
    orchestrator: Orchestrator
    directory: Directory
    store: StreamStore
    deliveries: Deliveries
    drain: Drain
    metrics: Metrics
    clock: Callable[[], int]
    several_workers: Callable[[], bool]
    """Whether other workers of this server live, which no setting tells under one's own Granian."""
    retry_ms: Callable[[], int]
    """When a client that loses its connection should come back, each at another time."""
    started: int
    """Unix seconds of the worker's start."""
    wall_clock: Callable[[], int] = time_ns
    """Unix time in nanoseconds."""

    @property
    def settings(self) -> Settings:
        """The settings in force at this moment: read them once for one decision."""
        return self.live.current

    @property
    def server(self) -> ServerSettings:
        """How the server listens."""
        return self.settings.server

    def model(self, name: str, tenant: str) -> ServedModel:
        """The model of this name, for this tenant; raises `UnknownModel`.

        Whether the tenant may use it, `api.allowed` says.
        """
        current = self.settings
        found = current.models.get(name)
        if found is None:
            raise UnknownModel(f"The model '{name[:200]}' does not exist.", param="model")
        return ServedModel(
            name,
            self.engines[found.routes[0].engine],
            found,
            current.stream_policy(tenant, name),
            current.timeouts(tenant, name),
        )


def services(request: Request) -> Services:
    """The services of the app that answers this request."""
    found: Services = request.app.state.services
    return found
