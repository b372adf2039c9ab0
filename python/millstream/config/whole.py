"""What must hold between parts of the configuration, each of which is right by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from millstream.config.limits import LimitSettings
from millstream.config.problems import Location, Problem, dotted, nearest
from millstream.config.settings import Settings
from millstream.config.streams import StreamOverrides, StreamPolicy


def problems_of(settings: Settings, *, promised: Collection[str] = ()) -> list[Problem]:
    """Everything that is wrong with the configuration as a whole.

    Tenants may also name the models that are ``promised``, though they are not served yet.
    """
    return [
        *_unknown_engines(settings),
        *_unknown_models(settings, {*settings.models, *promised}),
        *_limits_over_workers(settings),
        *_durable_over_workers(settings),
        *_resumption_over_workers(settings),
        *_open_to_the_public(settings),
        *_unknown_default_tenant(settings),
    ]


def _unknown_engines(settings: Settings) -> Iterator[Problem]:
    for name, model in settings.models.items():
        for index, route in enumerate(model.routes):
            if route.engine not in settings.engines:
                yield Problem(
                    ("models", name, "routes", index, "engine"),
                    f"there is no engine `{route.engine}`; "
                    + nearest(route.engine, settings.engines),
                )


def _unknown_models(settings: Settings, known: Collection[str]) -> Iterator[Problem]:
    for name, tenant in settings.tenants.items():
        places: list[tuple[Location, str]] = [
            *((("models", index), model) for index, model in enumerate(tenant.models or ())),
            *((("model_limits", model), model) for model in tenant.model_limits),
        ]
        for location, model in places:
            if model not in known:
                yield Problem(
                    ("tenants", name, *location),
                    f"there is no model `{model}`; {nearest(model, known)}",
                )


def _limits_over_workers(settings: Settings) -> Iterator[Problem]:
    """Limits are counted in each worker's memory, so N workers would grant N times as much."""
    workers = settings.server.workers
    if workers == 1 or settings.limiter.kind != "memory":
        return
    for location, limits in limit_settings(settings):
        for dimension in limits.dimensions():
            key = (*location, dimension)
            yield Problem(
                key,
                f"each worker counts by itself, so server.workers = {workers} would grant "
                f'{workers} times {dotted(key)}; use limiter.kind = "valkey", '
                "or server.workers = 1",
            )


def _durable_over_workers(settings: Settings) -> Iterator[Problem]:
    """By default the routes of several workers say why they refuse; asking for them is an error."""
    asked_for = "enabled" in settings.durable.model_fields_set and settings.durable.enabled
    if asked_for and settings.server.workers > 1:
        yield Problem(
            ("durable", "enabled"),
            "durable streams live in the memory of one worker, and server.workers = "
            f"{settings.server.workers}; use server.workers = 1",
        )


def _resumption_over_workers(settings: Settings) -> Iterator[Problem]:
    """Every request would be refused: the next one may reach a worker that does not know it."""
    workers = settings.server.workers
    if workers == 1 or settings.store.kind != "memory":
        return
    places: list[tuple[Location, StreamPolicy | StreamOverrides]] = [
        (("streams",), settings.streams),
        *((("models", name, "streams"), one.streams) for name, one in settings.models.items()),
        *((("tenants", name, "streams"), one.streams) for name, one in settings.tenants.items()),
    ]
    for location, streams in places:
        if streams.resumable_default:
            yield Problem(
                (*location, "resumable_default"),
                'with store.kind = "memory" each worker knows its own streams only, and '
                f'server.workers = {workers}; use store.kind = "valkey", or server.workers = 1',
            )


def _open_to_the_public(settings: Settings) -> Iterator[Problem]:
    server, auth = settings.server, settings.auth
    if auth.mode == "off" and not server.loopback and not auth.allow_public:
        yield Problem(
            ("server", "host"),
            f'{server.host} is not a loopback address and auth.mode is "off", so whoever reaches '
            'this machine could use the models; use auth.mode = "required", or '
            "auth.allow_public = true if that is meant",
        )


def _unknown_default_tenant(settings: Settings) -> Iterator[Problem]:
    """A default that is not there would refuse every request that names nobody."""
    name = settings.auth.default_tenant
    if name is not None and name not in settings.tenants:
        yield Problem(
            ("auth", "default_tenant"),
            f"there is no tenant `{name}`; {nearest(name, settings.tenants)}",
        )


def limit_settings(settings: Settings) -> Iterator[tuple[Location, LimitSettings]]:
    """The limits of every scope, and where they stand."""
    yield ("limits",), settings.limits
    for name, model in settings.models.items():
        yield ("models", name, "limits"), model.limits
    for name, tenant in settings.tenants.items():
        yield ("tenants", name, "limits"), tenant.limits
        for model_name, limits in tenant.model_limits.items():
            yield ("tenants", name, "model_limits", model_name), limits
