"""Who sent a request, as far as its credential proves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a credential.

    ``subject`` is fit for logs: the token's ``sub``, or the visible prefix of an API key.
    ``scopes`` are what the credential grants before its role trims them. ``expires_at`` is in unix
    seconds.
    """

    kind: Literal["jwt", "key", "anonymous"]
    subject: str
    tenant: str | None = None
    role: str | None = None
    scopes: tuple[str, ...] | None = None
    """None if the credential says nothing of scopes: then all that its role allows."""
    expires_at: float | None = None


ANONYMOUS = Principal("anonymous", "anonymous", scopes=("*",))
"""Whoever calls while authentication is off."""
