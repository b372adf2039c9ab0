"""What a credential may do: its scopes, trimmed by its role.

A scope is two words with a colon between them (`chat:create`). As a pattern, `chat:*` covers every
scope that begins with `chat:`, and `*` covers all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.identity.principal import Principal

ALL = "*"
EVERYDAY = frozenset(
    {
        "chat:create",
        "durable:read",
        "durable:write",
        "models:read",
        "streams:cancel",
        "streams:read",
    }
)
"""For a credential that says nothing of scopes, where no roles are configured.

All that concerns one's own tenant; what shows or changes the whole server has to be named.
"""
EVERYTHING = frozenset({ALL})
NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Granted:
    """What is left of a credential's scopes.

    ``dropped`` are those which are not granted as they stand: taken away, or narrowed.
    """

    scopes: frozenset[str]
    dropped: frozenset[str] = NOTHING


def granted(principal: Principal, roles: Mapping[str, Collection[str]]) -> Granted:
    """The scopes of this credential that its role allows, too.

    Where any role is configured, a credential without one, or with another one, is granted
    nothing. One that says nothing of scopes is granted all that its role allows.
    """
    asked = principal.scopes
    if not roles:
        return Granted(EVERYDAY if asked is None else frozenset(asked))
    role = NOTHING if principal.role is None else frozenset(roles.get(principal.role, ()))
    if asked is None:
        return Granted(role)
    both = frozenset(scope for one in asked for scope in _meet(one, role))
    return Granted(both, frozenset(asked) - both)


def allows(scopes: Collection[str], needed: str) -> bool:
    """Whether one of these scopes is, or covers, the one that is needed."""
    if needed in scopes or ALL in scopes:
        return True
    first, colon, _ = needed.partition(":")
    return bool(colon) and f"{first}:{ALL}" in scopes


def _meet(scope: str, role: frozenset[str]) -> Iterable[str]:
    """What both cover: of a wildcard and something under it, that something."""
    if allows(role, scope):
        return (scope,)
    if scope == ALL:
        return role
    if scope.endswith(f":{ALL}"):
        return (pattern for pattern in role if pattern.startswith(scope[:-1]))
    return ()
