"""Scopes as calls of the script need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from millstream.admission.shared_quota import quota_of
from millstream.admission.valkey.script import Keys, packed_quotas

if TYPE_CHECKING:
    from millstream.admission.base import ScopedLimits


class Scopes(NamedTuple):
    """Scopes with their keys and quotas as calls need them."""

    members: tuple[ScopedLimits, ...]
    names: tuple[str, ...]
    keys: Keys
    quotas: bytes


class ScopeBook:
    """The scopes of one namespace, prepared once for many decisions."""

    def __init__(self, namespace: str, *, most: int = 4096) -> None:
        self._tag = f"{{{namespace}}}"
        self._most = most
        self._known: dict[int, Scopes] = {}

    def prepared(self, members: tuple[ScopedLimits, ...]) -> Scopes:
        """The scopes in the form of the wire; ConfigError if a limit cannot be counted."""
        known = self._known.get(id(members))
        if known is not None and known.members is members:
            return known
        if len(self._known) >= self._most:
            self._known.clear()
        names = tuple(member.scope for member in members)
        quotas = packed_quotas([quota_of(member) for member in members])
        scopes = Scopes(members, names, self.keys(names), quotas)
        self._known[id(members)] = scopes
        return scopes

    def keys(self, names: Sequence[str]) -> Keys:
        """The state of each scope and its leases."""
        parts = ("state", "leases")
        return Keys.of([f"ms:{self._tag}:limit:{part}:{name}" for name in names for part in parts])

    @property
    def probe(self) -> Keys:
        """A key to try writing with."""
        return Keys.of([f"ms:{self._tag}:limit:probe"])
