"""Which idempotency key stands for which stream, among all processes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from millstream.errors import StoreUnavailable
from millstream.store.base import Claim
from millstream.store.valkey.keys import claim_key

if TYPE_CHECKING:
    from millstream.store.base import IdempotencyKey
    from millstream.store.valkey.connection import Connection

_RELEASE = """
local held = redis.call('GET', KEYS[1])
if held and cjson.decode(held).stream_id == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
"""


class RemoteClaims:
    """A key is taken in one step; from the stream's beginning on its writer keeps it alive."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, key: IdempotencyKey) -> Claim | None:
        """Who holds the key now; raises `StoreUnavailable`."""
        (held,) = await self._connection.call("claim", ("GET", claim_key(key)))
        return _decoded(held)

    async def take(self, key: IdempotencyKey, claim: Claim, *, ttl_seconds: float) -> Claim | None:
        """None if the key is this claim's now; raises `StoreUnavailable`."""
        value, ttl_ms = msgspec.json.encode(claim), max(int(ttl_seconds * 1000), 1)
        command = ("SET", claim_key(key), value, "NX", "GET", "PX", ttl_ms)
        (earlier,) = await self._connection.call("claim", command)
        return _decoded(earlier)

    async def release(self, key: IdempotencyKey, stream_id: str) -> None:
        """Free the key if this stream holds it; it goes by its time if that cannot be done."""
        with suppress(StoreUnavailable):
            await self._connection.call("claim", ("EVAL", _RELEASE, 1, claim_key(key), stream_id))


def _decoded(value: bytes | None) -> Claim | None:
    return None if value is None else msgspec.json.decode(value, type=Claim)
