"""Where streams outlive their connections: in this worker's memory, or in Valkey."""

from millstream.store.base import Claim, IdempotencyKey, Producer, StreamStore
from millstream.store.descriptor import BranchDescriptor, Descriptor, DialectName
from millstream.store.memory import MemoryStore
from millstream.store.observer import StoreObserver
from millstream.store.opening import open_store
from millstream.store.recording import Recording

__all__ = [
    "BranchDescriptor",
    "Claim",
    "Descriptor",
    "DialectName",
    "IdempotencyKey",
    "MemoryStore",
    "Producer",
    "Recording",
    "StoreObserver",
    "StreamStore",
    "open_store",
]
