"""Whose request it is: the first of the trusted sources that says anything decides."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.errors import NotAllowed

if TYPE_CHECKING:
    from millstream.config import AuthSettings, Settings
    from millstream.identity.bearer import Headers
    from millstream.identity.principal import Principal

HEADER = b"x-tenant-id"
DEFAULT = "default"
"""Whose requests are those that name nobody while authentication is off."""

_NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_LABEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
# A name or an IPv4 address, perhaps with the root's dot; or an IPv6 address; perhaps a port.
_HOST = re.compile(
    rb"(?:([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)\.?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?"
)

Source = Callable[["Principal", "Headers"], str | None]


class Tenancy:
    """Finds the tenant of a request, and checks that there is such a tenant.

    A source is asked only when those that are trusted more name nobody, so no header is even
    looked at where the credential names its tenant.
    """

    def __init__(self, current: Callable[[], Settings]) -> None:
        """``current`` gives the settings that are in force: tenants come and go with them."""
        self._current = current
        auth = current().auth
        self._off = auth.mode == "off"
        self._sources = [_source(name, auth) for name in auth.tenant_from]

    def tenant_of(self, principal: Principal, headers: Headers) -> str:
        """The tenant's name.

        Raises `NotAllowed`: `unknown_tenant` for one that is not configured, or if nobody is
        named and no default is configured; `invalid_tenant` for what cannot be a name.
        """
        settings = self._current()
        for source in self._sources:
            name = source(principal, headers)
            if name is not None:
                return self._known(name, settings)
        if settings.auth.default_tenant is not None:
            return self._known(settings.auth.default_tenant, settings)
        if self._off:
            return DEFAULT
        raise NotAllowed("The request names no tenant.", code="unknown_tenant")

    def _known(self, name: str, settings: Settings) -> str:
        if name in settings.tenants or (self._off and name == DEFAULT):
            return name
        raise NotAllowed("There is no such tenant.", code="unknown_tenant")


def _source(name: str, auth: AuthSettings) -> Source:
    if name == "header":
        return _header
    if name == "subdomain":
        return _Subdomain(auth.base_domain or "")
    return lambda principal, _: principal.tenant if principal.kind == name else None


def _header(_principal: Principal, headers: Headers) -> str | None:
    value = _only(HEADER, headers)
    if value is None:
        return None
    if not _NAME.fullmatch(value):
        raise _invalid("X-Tenant-ID")
    return value.decode("ascii")


class _Subdomain:
    """The one label before the base domain, in small letters; IDNs as browsers send them."""

    def __init__(self, base_domain: str) -> None:
        self._suffix = f".{base_domain}"

    def __call__(self, _principal: Principal, headers: Headers) -> str | None:
        value = _only(b"host", headers)
        if value is None:
            return None
        found = _HOST.fullmatch(value)
        if found is None:
            raise _invalid("Host")
        host = (found[1] or b"").decode("ascii").lower()
        if not host.endswith(self._suffix):
            return None
        label = host.removesuffix(self._suffix)
        if not _LABEL.fullmatch(label):
            raise _invalid("Host")
        return label


def _only(name: bytes, headers: Headers) -> bytes | None:
    values = [value for each, value in headers if each == name]
    if len(values) > 1:
        raise _invalid(name.decode().title().replace("-Id", "-ID"))
    return values[0] if values else None


def _invalid(header: str) -> NotAllowed:
    return NotAllowed(f"The header {header} names no tenant.", code="invalid_tenant")
