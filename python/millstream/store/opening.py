"""From the settings to a store."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING

from millstream.config.extras import needed_by
from millstream.store.memory import MemoryStore
from millstream.store.observer import StoreObserver, Unobserved

if TYPE_CHECKING:
    from millstream.config.store import StoreSettings
    from millstream.store.base import StreamStore


def open_store(
    settings: StoreSettings,
    *,
    clock: Callable[[], int] = monotonic_ns,
    observer: StoreObserver | None = None,
) -> StreamStore:
    """The store that the settings name; `StreamStore.start` reaches what is outside.

    ``clock`` is monotonic, in nanoseconds. Raises `ConfigError` if a package is missing.
    """
    observer = observer or Unobserved()
    if settings.kind == "memory":
        return MemoryStore(
            max_retained_bytes=settings.max_retained_bytes, clock=clock, observer=observer
        )
    with needed_by('store.kind = "valkey"', "valkey"):
        from millstream.store.valkey import ValkeyStore
    return ValkeyStore(settings, clock=clock, observer=observer)
