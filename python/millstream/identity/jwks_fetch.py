"""Fetches a key set over HTTP, with bounds on everything."""

from __future__ import annotations

import asyncio
from urllib.parse import urljoin, urlsplit

import aiohttp

TIMEOUT_SECONDS = 5.0
"""For all of a fetch, redirects included."""
MAX_BYTES = 1 << 20
MAX_REDIRECTS = 3
_REDIRECTS = {301, 302, 303, 307, 308}


class KeysNotFetched(Exception):
    """The server's answer has no keys in it; the message says what it has."""


def open_session() -> aiohttp.ClientSession:
    """A session for `fetch`: no cookies, and bodies as they are, so that none can swell."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        headers={
            "Accept": "application/jwk-set+json, application/json",
            "Accept-Encoding": "identity",
        },
    )


async def fetch(session: aiohttp.ClientSession, url: str) -> bytes:
    """The body at ``url``, following redirects as long as they keep the scheme.

    Raises KeysNotFetched, aiohttp.ClientError or TimeoutError.
    """
    async with asyncio.timeout(TIMEOUT_SECONDS):
        for _ in range(MAX_REDIRECTS + 1):
            async with session.get(url, allow_redirects=False) as answer:
                if answer.status not in _REDIRECTS:
                    return await _body(answer)
                url = _redirected(url, answer.headers.get("Location", ""))
    raise KeysNotFetched(f"more than {MAX_REDIRECTS} redirects")


def _redirected(url: str, location: str) -> str:
    target = urljoin(url, location)
    if not location or urlsplit(target).scheme != urlsplit(url).scheme:
        raise KeysNotFetched("a redirect to another scheme")
    return target


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    if answer.status != 200:
        raise KeysNotFetched(f"status {answer.status}")
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > MAX_BYTES:
            raise KeysNotFetched(f"more than {MAX_BYTES} bytes")
    return bytes(body)
