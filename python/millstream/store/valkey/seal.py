"""The end of a stream whose producer is gone: written once, by whichever follower comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from millstream._core import Log
from millstream.store.valkey.keys import EntryId, log_key, owner_key, stream_key
from millstream.store.valkey.mirror import PRODUCER_LOST
from millstream.telemetry.logging import get_logger
from millstream.types import Kind, Outcome

if TYPE_CHECKING:
    from millstream.store.valkey.connection import Connection
    from millstream.store.valkey.mirror import Mirror
    from millstream.store.valkey.wire import Command

_log = get_logger(__name__)

Sealed = Literal["sealed", "alive", "gone", "moved"]

# The entry's id has the next epoch, so that Valkey itself refuses whatever the producer, should it
# live after all, writes later. The log must end where the sealing follower thinks that it does.
_SCRIPT = """
if redis.call('EXISTS', KEYS[3]) == 1 then return 'alive' end
if redis.call('EXISTS', KEYS[2]) == 0 then return 'gone' end
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local last = newest[1] and newest[1][1] or '0-0'
if last ~= ARGV[1] then return 'moved' end
redis.call('XADD', KEYS[1], ARGV[2], 'b', ARGV[3])
redis.call('HSET', KEYS[2], 'outcome', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return 'sealed'
"""


async def seal(connection: Connection, mirror: Mirror, *, time_ns: int) -> Sealed:
    """End the stream as lost, unless its owner lives or it has gone on meanwhile.

    ``time_ns`` is Unix time. The mirror learns of the end as of any other entry. Raises
    `StoreUnavailable`.
    """
    (reply,) = await connection.call("beat", _command(mirror, time_ns))
    answer: Sealed = reply.decode()
    if answer == "sealed":
        _log.warning("stream_sealed", stream=mirror.id, owner=mirror.owner)
    return answer


def _command(mirror: Mirror, time_ns: int) -> Command:
    batch, last = _last_words(mirror, time_ns)
    name = mirror.id
    keys = (log_key(name), stream_key(name), owner_key(mirror.owner))
    sealed_id = bytes(EntryId(max(mirror.last.epoch, mirror.descriptor.epoch) + 1, last))
    retention_ms = max(int(mirror.descriptor.retention_seconds * 1000), 1)
    words = (bytes(mirror.last), sealed_id, batch, Outcome.ENGINE_LOST.value, retention_ms)
    return ("EVAL", _SCRIPT, 3, *keys, *words)


def _last_words(mirror: Mirror, time_ns: int) -> tuple[bytes, int]:
    """The error and the end as records that follow the mirror's last one."""
    log, tail = _continuing(mirror), mirror.log.tail
    log.append(Kind.ERROR, PRODUCER_LOST.to_json(), time_ns=time_ns)
    log.close(Outcome.ENGINE_LOST, time_ns=time_ns)
    packed = log.pack(tail)
    if packed is None:
        raise RuntimeError("a log that was just closed has nothing to say")
    return packed[0], packed[2]


def _continuing(mirror: Mirror) -> Log:
    """A log that goes on where the mirror ends: the mirror itself must not, if others were first.

    The last record brings along all that was known before it, the checks of the text among it.
    """
    descriptor, tail = mirror.descriptor, mirror.log.tail
    integrity = descriptor.id.encode() if descriptor.integrity else None
    branches = len(descriptor.branches)
    newest = mirror.log.pack(tail - 1) if tail else None
    if newest is None:
        return Log(integrity=integrity, branches=branches, first_seq=tail + 1)
    return Log.mirror(newest[0], integrity=integrity, branches=branches)
