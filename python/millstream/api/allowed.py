"""What a tenant may use: its models, and the routes by which it begins something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import Depends
from starlette.requests import Request

from millstream.api.services import ServedModel, Services, services
from millstream.api.tenant import tenant_of
from millstream.config import TenantSettings
from millstream.errors import NotAllowed

if TYPE_CHECKING:
    from millstream.config import Settings
    from millstream.config.tenants import RouteName
    from millstream.store.descriptor import DialectName
    from millstream.streams.orchestrator import Generation

_ROUTES: dict[DialectName, RouteName] = {
    "chat": "chat",
    "completion": "completions",
    "native": "streams",
    "responses": "responses",
}
_UNLIMITED = TenantSettings(model_limits={})


def tenant_settings(settings: Settings, tenant: str) -> TenantSettings:
    """What holds for this tenant; raises `NotAllowed` for one that is not known any more.

    While authentication is off, one that is not configured is whoever an application around this
    one says it is, and may do everything.
    """
    found = settings.tenants.get(tenant)
    if found is None and settings.auth.mode == "required":
        # It was known when the request was authenticated: its body has taken longer than that.
        raise NotAllowed("There is no such tenant.", code="unknown_tenant")
    return found or _UNLIMITED


def allowed_model(request: Request, parts: Services, name: str) -> ServedModel:
    """The model, for the tenant of this request.

    Raises `UnknownModel`, and `NotAllowed` for every name that is not among a tenant's own: so
    nobody learns which others there are.
    """
    tenant = tenant_of(request)
    _check_model(parts.settings, tenant, name)
    return parts.model(name, tenant)


def check_still_allowed(settings: Settings, generation: Generation) -> None:
    """Raise `NotAllowed` if its tenant, or what that may use, has gone meanwhile."""
    _check_route(settings, generation.tenant, _ROUTES[generation.dialect])
    for branch in generation.branches:
        _check_model(settings, generation.tenant, branch.model)


def _check_route(settings: Settings, tenant: str, name: RouteName) -> None:
    routes = tenant_settings(settings, tenant).routes
    if routes is not None and name not in routes:
        raise NotAllowed(f"This tenant may not call the route '{name}'.", code="route_not_allowed")


def _check_model(settings: Settings, tenant: str, name: str) -> None:
    models = tenant_settings(settings, tenant).models
    if models is not None and name not in models:
        raise NotAllowed(
            f"The model '{name[:200]}' is not among those that this tenant may use.",
            code="model_not_allowed",
        )


def allowed_names(request: Request, parts: Services) -> list[str]:
    """The models that the tenant of this request may use, in the order of the configuration."""
    settings = parts.settings
    own = tenant_settings(settings, tenant_of(request)).models
    return [name for name in settings.models if own is None or name in own]


class AllowedRoute:
    """Lets a request pass whose tenant may call this route."""

    def __init__(self, name: RouteName) -> None:
        self.name = name

    async def __call__(self, request: Request) -> None:
        """Raises `NotAllowed`."""
        if not hasattr(request.app.state, "services"):
            # The durable streams alone, in an app without tenants.
            return
        _check_route(services(request).settings, tenant_of(request), self.name)


def route(name: RouteName) -> Any:
    """The dependency of a route that a tenant may be kept from."""
    return Depends(AllowedRoute(name))
