"""What the routes work with, put together by `millstream.app`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import time_ns
from typing import TYPE_CHECKING

from starlette.requests import Request

from millstream.errors import UnknownModel

if TYPE_CHECKING:
    from millstream.config import ModelSettings, ServerSettings, Settings, StreamPolicy
    from millstream.engines.base import Engine
    from millstream.store.base import StreamStore
    from millstream.store.descriptor import Descriptor
    from millstream.streams.deliveries import Deliveries
    from millstream.streams.directory import Directory
    from millstream.streams.drain import Drain
    from millstream.streams.orchestrator import Orchestrator
    from millstream.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A name that clients use, and the engine that answers for it."""

    name: str
    engine: Engine
    settings: ModelSettings
    created: int


@dataclass(frozen=True, slots=True)
class Services:
    """One instance a worker."""

    settings: Settings
    models: Mapping[str, ServedModel]
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
    wall_clock: Callable[[], int] = time_ns
    """Unix time in nanoseconds."""

    @property
    def server(self) -> ServerSettings:
        """How the server listens."""
        return self.settings.server

    def model(self, name: str) -> ServedModel:
        """The model of this name; raises `UnknownModel`."""
        served = self.models.get(name)
        if served is None:
            raise UnknownModel(f"The model '{name[:200]}' does not exist.", param="model")
        return served

    def policy_of(self, descriptor: Descriptor) -> StreamPolicy:
        """What holds for the connections of this stream: of several models the first one's word."""
        return self.settings.stream_policy(descriptor.tenant, descriptor.branches[0].model)


def services(request: Request) -> Services:
    """The services of the app that answers this request."""
    found: Services = request.app.state.services
    return found
