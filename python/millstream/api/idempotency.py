"""``Idempotency-Key``: what a client sends again does not run again."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import msgspec
from pydantic import BaseModel
from starlette.requests import Request

from millstream.api.errors import RouteRefused
from millstream.store.base import IdempotencyKey

HEADER = "Idempotency-Key"
MAX_KEY_CHARACTERS = 255
_VISIBLE = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Keyed:
    """A key, and what the request that carries it asks for."""

    key: IdempotencyKey
    fingerprint: str


def keyed(request: Request, tenant: str, body: BaseModel) -> Keyed | None:
    """The key of this request, if it has one; raises `RouteRefused` (400) for a malformed one."""
    key = idempotency_key(request, tenant)
    return None if key is None else Keyed(key, fingerprint(request.url.path, body))


def idempotency_key(request: Request, tenant: str) -> IdempotencyKey | None:
    """The key of this request, if it has one; raises `RouteRefused` (400) for a malformed one."""
    values = request.headers.getlist(HEADER)
    if not values:
        return None
    key = values[0]
    if len(values) > 1:
        problem = f"sent {len(values)} times, send one"
    elif len(key) > MAX_KEY_CHARACTERS:
        problem = f"{len(key)} characters, at most {MAX_KEY_CHARACTERS} are allowed"
    elif not _VISIBLE.fullmatch(key):
        problem = "must be of visible ASCII characters, at least one"
    else:
        return IdempotencyKey(tenant, key)
    raise RouteRefused(400, "invalid_idempotency_key", f"{HEADER}: {problem}.", param=HEADER)


def fingerprint(route: str, body: BaseModel) -> str:
    """What two requests share that ask for the same: SHA-256 over route and body, in hex.

    The order of members, and members that are null or absent, make no difference.
    """
    fields = body.model_dump(exclude_none=True)
    canonical = msgspec.json.encode([route, fields], order="deterministic")
    return hashlib.sha256(canonical).hexdigest()


def other_body() -> RouteRefused:
    """The refusal of a key that stands for another request."""
    return RouteRefused(
        422,
        "idempotency_key_reused",
        f"{HEADER}: this key was used with another request; take a new one.",
        param=HEADER,
    )
