"""Which limits hold for a request: those of the server, its tenant, its model, and both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from millstream.admission.base import ScopedLimits
from millstream.admission.policies import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

GLOBAL = "global"


class LimitBook:
    """All limits of a configuration; looking one up is a dictionary's work.

    Scopes that limit nothing are left out, so an unlimited request has no scopes at all. The scopes
    of the same tenant and model are the same object each time. Raises ConfigError for limits out of
    range.
    """

    def __init__(
        self,
        server: Limits | None = None,
        *,
        tenants: Mapping[str, Limits] | None = None,
        models: Mapping[str, Limits] | None = None,
        tenant_models: Mapping[tuple[str, str], Limits] | None = None,
    ) -> None:
        self._server = server or Limits()
        self._tenants = dict(tenants or {})
        self._models = dict(models or {})
        self._tenant_models = dict(tenant_models or {})
        self._known: dict[tuple[str, str], tuple[ScopedLimits, ...]] = {}
        self._tenant_names = self._tenants.keys() | {tenant for tenant, _ in self._tenant_models}
        self._model_names = self._models.keys() | {model for _, model in self._tenant_models}
        for scoped in self.every():
            scoped.limits.quota()

    def scopes(self, tenant: str, model: str) -> tuple[ScopedLimits, ...]:
        """The scopes that limit this tenant's use of this model, widest first."""
        # Names that a client makes up are all one, so that what is remembered has a bound.
        named = (
            tenant if tenant in self._tenant_names else "",
            model if model in self._model_names else "",
        )
        known = self._known.get(named)
        if known is None:
            known = tuple(scope for scope in self._all(*named) if scope.limits)
            self._known[named] = known
        return known

    def every(self) -> Iterator[ScopedLimits]:
        """Every scope by its name, also those that limit nothing."""
        yield ScopedLimits(GLOBAL, self._server)
        for tenant, limits in self._tenants.items():
            yield ScopedLimits(f"tenant:{tenant}", limits)
        for model, limits in self._models.items():
            yield ScopedLimits(f"model:{model}", limits)
        for (tenant, model), limits in self._tenant_models.items():
            yield ScopedLimits(f"tenant:{tenant}/model:{model}", limits)

    def _all(self, tenant: str, model: str) -> Iterator[ScopedLimits]:
        yield ScopedLimits(GLOBAL, self._server)
        if tenant in self._tenants:
            yield ScopedLimits(f"tenant:{tenant}", self._tenants[tenant])
        if model in self._models:
            yield ScopedLimits(f"model:{model}", self._models[model])
        both = self._tenant_models.get((tenant, model))
        if both is not None:
            yield ScopedLimits(f"tenant:{tenant}/model:{model}", both)
