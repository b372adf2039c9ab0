"""The store that all workers share: a Valkey or Redis server, 7 or newer."""

from millstream.store.valkey.store import ValkeyStore

__all__ = ["ValkeyStore"]
