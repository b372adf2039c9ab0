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

    Scopes that limit nothing are left out, so an unlimited request has no scopes at all.
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

    def scopes(self, tenant: str, model: str) -> tuple[ScopedLimits, ...]:
        """The scopes that limit this tenant's use of this model, widest first."""
        known = self._known.get((tenant, model))
        if known is None:
            known = tuple(scope for scope in self._all(tenant, model) if scope.limits)
            if self._named(tenant, model):
                self._known[tenant, model] = known
        return known

    def _all(self, tenant: str, model: str) -> Iterator[ScopedLimits]:
        yield ScopedLimits(GLOBAL, self._server)
        if tenant in self._tenants:
            yield ScopedLimits(f"tenant:{tenant}", self._tenants[tenant])
        if model in self._models:
            yield ScopedLimits(f"model:{model}", self._models[model])
        both = self._tenant_models.get((tenant, model))
        if both is not None:
            yield ScopedLimits(f"tenant:{tenant}/model:{model}", both)

    def _named(self, tenant: str, model: str) -> bool:
        # Names that a client makes up are not remembered.
        return tenant in self._tenants and model in self._models
