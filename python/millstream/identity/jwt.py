"""Bearer tokens that are JSON Web Tokens."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from time import monotonic_ns, time_ns

from millstream._core import JwtError, JwtVerifier
from millstream.config.auth import ClaimSettings, JwtSettings
from millstream.errors import ConfigError, NotAuthenticated
from millstream.identity.jwks import open_keys
from millstream.identity.principal import Principal

NANOSECONDS = 1_000_000_000


class JwtAuthenticator:
    """Tells who holds a token, or that it does not hold.

    ``clock`` is monotonic and paces the keys, ``wall_clock`` is what ``exp`` and ``nbf`` are
    compared with; both in nanoseconds. ``environ`` is where the secret of HS256 is looked up.
    """

    def __init__(
        self,
        settings: JwtSettings,
        claims: ClaimSettings | None = None,
        *,
        clock: Callable[[], int] = monotonic_ns,
        wall_clock: Callable[[], int] = time_ns,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Raises ConfigError for names of claims that cannot be read together."""
        self._verifier = _verifier(settings, claims or ClaimSettings())
        self._wall_clock = wall_clock
        self._keys = open_keys(
            settings,
            self._verifier,
            clock=clock,
            environ=os.environ if environ is None else environ,
        )

    async def start(self) -> None:
        """Load the keys.

        Raises ConfigError if the file or the secret cannot be used. An address that does not
        answer is no error: it is asked again when a token comes.
        """
        await self._keys.start()

    async def close(self) -> None:
        """Let go of connections."""
        await self._keys.close()

    async def authenticate(self, token: str) -> Principal:
        """The holder of a token.

        Raises NotAuthenticated with the exact ``reason`` (`_core.JwtError`), KeysUnavailable if no
        keys can be had to check it with.
        """
        await self._keys.prepare()
        revision = self._keys.revision
        try:
            return self._principal(token)
        except JwtError as error:
            if error.reason != "unknown_key" or not await self._keys.changed_since(revision):
                raise _refusal(error) from error
        try:
            return self._principal(token)
        except JwtError as error:
            raise _refusal(error) from error

    def _principal(self, token: str) -> Principal:
        claims = self._verifier.verify(token, self._wall_clock() // NANOSECONDS)
        return Principal(
            kind="jwt",
            subject=claims.subject,
            tenant=claims.tenant,
            role=claims.role,
            scopes=claims.scopes,
            expires_at=claims.expires_at,
        )


def _verifier(settings: JwtSettings, claims: ClaimSettings) -> JwtVerifier:
    try:
        return JwtVerifier(
            algorithms=settings.algorithms,
            issuer=settings.issuer,
            audience=settings.audience,
            leeway_seconds=settings.leeway_seconds,
            claims=(claims.tenant, claims.role, claims.scopes),
        )
    except ValueError as error:
        raise ConfigError(f"auth.claims: {error}") from error


def _refusal(error: JwtError) -> NotAuthenticated:
    # That a token is too old its holder knows anyway, and is what a client can do something about.
    expired = error.reason == "expired"
    message = "The token has expired" if expired else "The token does not hold"
    return NotAuthenticated(message, reason=error.reason)
