"""Asks a server on this machine, never through a proxy of the environment."""

from __future__ import annotations

from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener


def get(
    address: str, *, timeout_seconds: float = 5.0, credential: str | None = None
) -> tuple[int, str] | None:
    """Status and body of a GET; None if nobody answers in HTTP, or this is no address.

    ``credential`` is an API key or an access token.
    """
    opener = build_opener(ProxyHandler({}))
    if credential:
        opener.addheaders.append(("Authorization", f"Bearer {credential}"))
    try:
        with opener.open(address, timeout=timeout_seconds) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode(errors="replace")
    except (OSError, HTTPException, ValueError):
        return None
