"""A key set behind an address: cached, renewed for an unknown key, used on while it is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import aiohttp

from millstream.config.secrets import masked
from millstream.errors import KeysUnavailable
from millstream.identity.jwks_fetch import KeysNotFetched, fetch, open_session
from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from millstream._core import JwtVerifier

_log = get_logger(__name__)

RENEW_NS = 5_000_000_000
"""Least time between two fetches for unknown keys: whoever invents keys causes no more."""
RETRY_NS = 5_000_000_000
"""Least time between a fetch that failed and the next one."""


class JwksUrl:
    """Fetches keys when a request needs them, never more than once at a time.

    Keys are fresh for ``cache_seconds``. Then the next request waits for new ones. If those cannot
    be had, the old ones go on for ``stale_seconds``, and nobody waits for the attempts that follow.
    ``clock`` is monotonic, in nanoseconds.
    """

    def __init__(
        self,
        url: str,
        verifier: JwtVerifier,
        *,
        cache_seconds: float,
        stale_seconds: float,
        clock: Callable[[], int],
    ) -> None:
        self.revision = 0
        self._url = url
        self._verifier = verifier
        self._cache_ns = int(cache_seconds * 1e9)
        self._stale_ns = int(stale_seconds * 1e9)
        self._clock = clock
        self._text: bytes | None = None
        self._fetched_ns: int | None = None
        self._failed_ns: int | None = None
        self._began_ns: int | None = None
        self._session: aiohttp.ClientSession | None = None
        self._fetching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Fetch the keys; a server that is away may come later, requests are refused until then."""
        self._session = open_session()
        await self._wait(self._begin(self._clock()))

    async def close(self) -> None:
        """Give up a fetch that is under way."""
        if self._fetching is not None:
            self._fetching.cancel()
            await self._wait(self._fetching)
        if self._session is not None:
            await self._session.close()

    async def prepare(self) -> None:
        """Wait for new keys if the old ones are not fresh; KeysUnavailable if there are none."""
        now_ns = self._clock()
        if self._younger(self._cache_ns, now_ns):
            return
        fetching = self._fetching if self._pausing(now_ns) else self._begin(now_ns)
        if self._failed_ns is None or not self._usable(now_ns):
            await self._wait(fetching)
        if not self._usable(self._clock()):
            raise KeysUnavailable("The keys for checking tokens cannot be had at the moment")

    async def changed_since(self, revision: int) -> bool:
        """Fetch, if that has not just been done, and tell whether the keys are others."""
        if self.revision == revision:
            now_ns = self._clock()
            recent = self._began_ns is not None and now_ns - self._began_ns < RENEW_NS
            pausing = recent or self._pausing(now_ns)
            await self._wait(self._fetching if pausing else self._begin(now_ns))
        return self.revision != revision

    def _younger(self, age_ns: int, now_ns: int) -> bool:
        return self._fetched_ns is not None and now_ns - self._fetched_ns < age_ns

    def _usable(self, now_ns: int) -> bool:
        return self._younger(self._cache_ns + self._stale_ns, now_ns)

    def _pausing(self, now_ns: int) -> bool:
        return self._failed_ns is not None and now_ns - self._failed_ns < RETRY_NS

    async def _wait(self, fetching: asyncio.Task[None] | None) -> None:
        # Whoever waits may be cancelled, the fetch is everybody's.
        if fetching is not None:
            await asyncio.wait([fetching])

    def _begin(self, now_ns: int) -> asyncio.Task[None]:
        if self._fetching is None:
            self._began_ns = now_ns
            self._fetching = asyncio.create_task(self._refresh(now_ns))
        return self._fetching

    async def _refresh(self, now_ns: int) -> None:
        try:
            await self._fetch()
        except (aiohttp.ClientError, OSError, KeysNotFetched, ValueError) as error:
            self._failed_ns = self._clock()
            # It may quote the whole address, or one that a redirect named.
            reason = masked(str(error)) or type(error).__name__
            _log.warning("jwks_not_fetched", url=masked(self._url), reason=reason)
        else:
            # As old as the question, not as the answer.
            self._fetched_ns, self._failed_ns = now_ns, None
        finally:
            self._fetching = None

    async def _fetch(self) -> None:
        if self._session is None:
            raise KeysNotFetched("not started")
        text = await fetch(self._session, self._url)
        if text == self._text:
            return
        take_keys(self._verifier, text, source=masked(self._url))
        self._text = text
        self.revision += 1
        _log.info("jwks_fetched", url=masked(self._url), keys=self._verifier.key_count)


def take_keys(verifier: JwtVerifier, text: bytes, *, source: str) -> None:
    """Replace the verifier's keys, and log those that cannot be used.

    Raises ValueError for what is no key set.
    """
    for line in verifier.replace_keys(text):
        _log.warning("jwks_key_left_out", source=source, reason=line)
