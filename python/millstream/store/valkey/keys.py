"""The keys under which everything lies in Valkey, and the ids of entries."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from millstream.store.base import IdempotencyKey

MAX_STREAM_ID = 200


def is_stream_id(text: str) -> bool:
    """Whether there could be a stream of this name at all."""
    return text.isascii() and 0 < len(text) <= MAX_STREAM_ID


def stream_key(stream_id: str) -> bytes:
    """Hash: the stream's descriptor, its owner, and its outcome once it has one."""
    return b"ms:{%b}" % stream_id.encode()


def log_key(stream_id: str) -> bytes:
    """Stream: the packed records."""
    return b"ms:{%b}:log" % stream_id.encode()


def owner_key(process: str) -> bytes:
    """String that is there while the process lives."""
    return b"ms:owner:%b" % process.encode()


def control_key(process: str) -> bytes:
    """Stream: what other processes ask of this one."""
    return b"ms:control:%b" % process.encode()


def claim_key(key: IdempotencyKey) -> bytes:
    """String: the claim that holds a client's key."""
    digest = hashlib.sha256(b"%b\0%b" % (key.tenant.encode(), key.key.encode())).hexdigest()
    return b"ms:claim:%b" % digest.encode()


class EntryId(NamedTuple):
    """Who produced an entry, and the last seq in it; Valkey takes rising ones only."""

    epoch: int
    seq: int

    def __bytes__(self) -> bytes:
        return b"%d-%d" % self

    @classmethod
    def parse(cls, text: bytes) -> EntryId:
        """Raises ValueError if it is none."""
        epoch, _, seq = text.partition(b"-")
        return cls(int(epoch), int(seq))


BEFORE_ALL = EntryId(0, 0)
