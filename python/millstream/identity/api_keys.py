"""API keys: `ms_`, eight characters that may be shown, `_`, and 43 that may not.

The second part is 256 bits from the system's generator, so what is kept of a key is a plain
SHA-256. A slow hash makes guesses expensive where people choose the secret; of these nobody guesses
one, and each request would pay for it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Collection

import msgspec

MARK = "ms_"
_PREFIX_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_PREFIX_LENGTH = 8
_SECRET_BYTES = 32
_KEY = re.compile(r"(ms_[a-z0-9]{8})_[A-Za-z0-9_-]{43}")
_PREFIX = re.compile(r"(?:ms_)?([a-z0-9]{8})")
_NOBODYS = bytes(32)


class ApiKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is kept of a key: one line of the file. Moments are unix seconds."""

    prefix: str
    """`ms_` and the part that may be shown."""
    sha256: str
    """Of the whole key, in hex."""
    tenant: str
    created_at: int
    role: str | None = None
    scopes: tuple[str, ...] | None = None
    """None if its role alone says what it may do."""
    expires_at: int | None = None
    revoked_at: int | None = None

    def __post_init__(self) -> None:
        if _shown(self.prefix) != self.prefix:
            raise ValueError("prefix: must be `ms_` and 8 small letters or digits")
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ValueError("sha256: must be 64 small hex digits")

    def refusal(self, now: float) -> str | None:
        """Why it no longer holds, if it does not; ``now`` is in unix seconds."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and now >= self.expires_at:
            return "expired"
        return None


def new_key(
    taken: Collection[str],
    *,
    tenant: str,
    now: int,
    role: str | None = None,
    scopes: tuple[str, ...] | None = None,
    expires_at: int | None = None,
    choose: Callable[[str], str] = secrets.choice,
) -> tuple[str, ApiKey]:
    """A key's text, to be shown once, and what is kept of it; its prefix is none of ``taken``."""
    prefix = _new_prefix(choose)
    while prefix in taken:
        prefix = _new_prefix(choose)
    text = f"{prefix}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    kept = ApiKey(
        prefix=prefix,
        sha256=_digest(text).hex(),
        tenant=tenant,
        created_at=now,
        role=role,
        scopes=scopes,
        expires_at=expires_at,
    )
    return text, kept


def looks_like_key(credential: str) -> bool:
    """Whether this is meant as an API key: a JSON Web Token begins with `e`, base64 of its `{`."""
    return credential.startswith(MARK)


def prefix_of(key: str) -> str | None:
    """The part of a key's text that may be shown; None if this is no key."""
    found = _KEY.fullmatch(key)
    return None if found is None else found[1]


def prefix_named(text: str) -> str | None:
    """The prefix that somebody means by ``text``: with `ms_`, without it, or a whole key."""
    return prefix_of(text) or _shown(text)


def holds(key: str, record: ApiKey | None) -> bool:
    """Whether ``key`` is the one that ``record`` was kept of.

    The digests are compared in constant time, and without a record with one that no key has, so
    that the time tells nothing of which prefixes there are.
    """
    expected = _NOBODYS if record is None else bytes.fromhex(record.sha256)
    return hmac.compare_digest(_digest(key), expected) and record is not None


def _new_prefix(choose: Callable[[str], str]) -> str:
    return MARK + "".join(choose(_PREFIX_LETTERS) for _ in range(_PREFIX_LENGTH))


def _shown(text: str) -> str | None:
    found = _PREFIX.fullmatch(text)
    return None if found is None else MARK + found[1]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
