"""From the head of a request to who sent it, for whom, and what they may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from millstream.errors import NotAllowed, NotAuthenticated
from millstream.identity.api_keys import looks_like_key
from millstream.identity.bearer import bearer_of
from millstream.identity.principal import ANONYMOUS, Principal
from millstream.identity.scopes import EVERYTHING, NOTHING, granted
from millstream.identity.tenancy import Tenancy

if TYPE_CHECKING:
    from starlette.types import Scope

    from millstream.config import Settings
    from millstream.identity.key_ring import KeyRing


@dataclass(frozen=True, slots=True)
class Identified:
    """Who sent a request, for which tenant, and what they may do.

    ``dropped`` are the scopes of the credential that its role takes away or narrows.
    """

    principal: Principal
    tenant: str
    scopes: frozenset[str]
    dropped: frozenset[str] = NOTHING


class Tokens(Protocol):
    """Tells whose token it is."""

    async def start(self) -> None:
        """Fetch what is needed to tell."""
        ...

    async def close(self) -> None:
        """Give back what `start` has taken."""
        ...

    async def authenticate(self, token: str) -> Principal:
        """Whose token this is; raises `NotAuthenticated`."""
        ...


class Authenticator:
    """Identifies requests; one instance a worker, between `start` and `close`.

    ``current`` gives the settings in force: their tenants, roles and default tenant may change.
    ``keys`` and ``tokens`` are the credentials that are accepted; while authentication is off
    none is looked at.
    """

    def __init__(
        self,
        current: Callable[[], Settings],
        *,
        keys: KeyRing | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        self._current = current
        self._required = current().auth.mode == "required"
        self._keys = keys
        self._tokens = tokens
        self._tenancy = Tenancy(current)

    async def start(self) -> None:
        """Fetch what is needed to check tokens."""
        if self._tokens is not None:
            await self._tokens.start()

    async def close(self) -> None:
        """Give back what `start` has taken."""
        if self._tokens is not None:
            await self._tokens.close()

    async def authenticate(self, scope: Scope) -> Identified:
        """Who sent the request with this head.

        Raises `NotAuthenticated`, `NotAllowed` for a tenant that is not known, and
        `KeysUnavailable` while tokens cannot be checked.
        """
        headers = scope["headers"]
        if not self._required:
            return Identified(ANONYMOUS, self._tenancy.tenant_of(ANONYMOUS, headers), EVERYTHING)
        principal = await self._principal(bearer_of(headers))
        try:
            tenant = self._tenancy.tenant_of(principal, headers)
        except NotAllowed as error:
            error.subject = principal.subject
            raise
        what = granted(principal, self._current().auth.roles)
        return Identified(principal, tenant, what.scopes, what.dropped)

    async def _principal(self, credential: str) -> Principal:
        if self._keys is not None and looks_like_key(credential):
            return self._keys.authenticate(credential)
        if self._tokens is not None:
            return await self._tokens.authenticate(credential)
        raise NotAuthenticated("The credential is not valid.", reason="unknown_kind")
