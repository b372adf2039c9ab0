"""The only place where the parts are put together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from random import Random
from time import monotonic_ns, time_ns

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from millstream import __version__
from millstream.admission import Admission
from millstream.api import (
    admin,
    chat,
    completions,
    durable,
    errors,
    health,
    models,
    openapi,
    resume,
    streams,
)
from millstream.api.allowed import check_still_allowed
from millstream.api.responses import router as responses
from millstream.api.services import Services
from millstream.assembly.admission import open_admission
from millstream.assembly.audit import open_audit
from millstream.assembly.companions import companions
from millstream.assembly.durable import follow_streams, open_durable
from millstream.assembly.engines import open_engines
from millstream.assembly.identity import open_authenticator
from millstream.assembly.limits import book_of
from millstream.assembly.middleware import chain
from millstream.assembly.reload import Reloader
from millstream.config import (
    LiveSettings,
    Loaded,
    Settings,
    StoreSettings,
    StreamSettings,
)
from millstream.identity.authenticator import Authenticator
from millstream.middleware.hook_events import RequestHooks
from millstream.store import StreamStore, open_store
from millstream.streams.deliveries import Deliveries
from millstream.streams.directory import Directory
from millstream.streams.drain import Drain
from millstream.streams.hub import Wakeups
from millstream.streams.hubs import Hubs
from millstream.streams.jitter import retry_ms
from millstream.streams.metrics import StreamMetrics
from millstream.streams.observer import MoveLog, Observers
from millstream.streams.orchestrator import Orchestrator
from millstream.streams.orphan import OrphanWatch
from millstream.streams.registry import StreamRegistry
from millstream.streams.response import DIRECT_SEND
from millstream.streams.sweeper import Sweeper
from millstream.streams.timers import StreamTimers
from millstream.telemetry.audit import AuditLog
from millstream.telemetry.metrics import Metrics
from millstream.telemetry.shared_files import metrics_directory


class App(FastAPI):
    """FastAPI whose streams reach the server's ``send`` without the layers between."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        scope[DIRECT_SEND] = send
        await super().__call__(scope, receive, send)


def create_app(configured: Settings | Loaded, *, hooks: Sequence[RequestHooks] = ()) -> FastAPI:
    """The ASGI application for these settings; engines start and end with its lifespan.

    Settings that were loaded are loaded again when they change (`ReloadSettings`). ``hooks`` hear
    of every request. Raises ConfigError for a file that cannot be opened.
    """
    reloader = Reloader(configured)
    live, settings = reloader.live, reloader.live.current
    authenticator = open_authenticator(lambda: live.current)
    audit = open_audit(settings.audit)
    app = App(
        title="Millstream",
        version=__version__,
        # A redirect would name this server as a proxy knows it, and its scheme, not the client's.
        redirect_slashes=False,
        lifespan=_lifespan(reloader, authenticator, audit),
        middleware=chain(
            settings,
            authenticator=authenticator,
            audit=audit,
            hooks=hooks,
            reloads=isinstance(configured, Loaded),
        ),
    )
    for module in (chat, completions, streams, resume, models, responses, health, admin):
        app.include_router(module.router)
    if settings.durable.enabled:
        app.include_router(durable.router)
    errors.install(app)
    openapi.install(app, secured=settings.auth.mode == "required")
    return app


def _lifespan(
    reloader: Reloader, authenticator: Authenticator, audit: AuditLog
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.callback(audit.close)
            stack.push_async_callback(authenticator.close)
            await authenticator.start()
            services = await _start(reloader.live, stack)
            app.state.services = services
            app.state.durable = open_durable(reloader.live.current, services, stack)
            stack.callback(reloader.live.subscribe(partial(follow_streams, app)))
            await reloader.start(
                stack, several_workers=services.several_workers, observer=services.metrics
            )
            yield

    return lifespan


async def _start(live: LiveSettings, stack: AsyncExitStack) -> Services:
    """Everything that one worker runs; the stack gives it all back in reverse order."""
    settings = live.current
    directory = metrics_directory()
    metrics = Metrics(settings.models, directory)
    others = stack.enter_context(companions(directory))
    admission = await open_admission(
        settings, stack, others=others, clock=monotonic_ns, observer=metrics
    )
    stack.callback(live.follow(book_of, admission.replace))
    registry = StreamRegistry()
    wakeups = Wakeups()
    stack.callback(wakeups.close)
    store = open_store(settings.store, clock=monotonic_ns, observer=metrics)
    # After the streams have ended and before the loop goes: what is not written yet is now.
    stack.push_async_callback(store.close)
    await store.start()
    drain = Drain(
        registry,
        seconds=settings.server.drain_seconds,
        shared=store.shared,
        clock=monotonic_ns,
    )
    deliveries = _deliveries(settings.streams, wakeups, drain)
    hubs = Hubs(wakeups, metrics.dropped_records)
    engines = await open_engines(settings, stack, hubs=hubs)
    orchestrator = _orchestrator(live, admission, registry, drain, store, metrics)
    sweeper = Sweeper(
        [StreamTimers(registry), deliveries, drain, orchestrator, store, hubs, OrphanWatch()]
    )
    stack.callback(sweeper.close)
    stack.push_async_callback(drain.finish)
    sweeper.start()
    drain.install()
    return Services(
        live=live,
        engines=engines,
        orchestrator=orchestrator,
        directory=_directory(settings.store, registry, store, wakeups),
        store=store,
        deliveries=deliveries,
        drain=drain,
        metrics=metrics,
        clock=monotonic_ns,
        several_workers=others.several,
        retry_ms=partial(retry_ms, Random()),  # noqa: S311 - no secret
        started=time_ns() // 1_000_000_000,
    )


def _deliveries(settings: StreamSettings, wakeups: Wakeups, drain: Drain) -> Deliveries:
    return Deliveries(
        wakeups.notifier,
        keep_alive_ns=int(settings.keep_alive_seconds * 1e9) or None,
        blocked_send_ns=int(settings.blocked_send_seconds * 1e9),
        coalesce_ns=settings.coalesce_ms * 1_000_000,
        deadline_ns=lambda: drain.deadline_ns,
    )


def _directory(
    settings: StoreSettings, registry: StreamRegistry, store: StreamStore, wakeups: Wakeups
) -> Directory:
    # Whoever waits for a worker that is gone learns of its end within two leases.
    return Directory(registry, store, wakeups, patience_seconds=2 * settings.lease_seconds + 2)


def _orchestrator(
    live: LiveSettings,
    admission: Admission,
    registry: StreamRegistry,
    drain: Drain,
    store: StreamStore,
    metrics: Metrics,
) -> Orchestrator:
    return Orchestrator(
        registry=registry,
        admission=admission,
        drain=drain,
        observer=_observer(live.current, metrics),
        store=store,
        clock=monotonic_ns,
        wall_clock=time_ns,
        permitted=lambda generation: check_still_allowed(live.current, generation),
    )


def _observer(settings: Settings, metrics: Metrics) -> Observers:
    if settings.log.level == "debug":
        return Observers(StreamMetrics(metrics), MoveLog())
    return Observers(StreamMetrics(metrics))
