"""Streams by their name, wherever they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.types import Outcome

if TYPE_CHECKING:
    from millstream.store import Recording, StreamStore
    from millstream.streams.registry import StreamRegistry
    from millstream.streams.stream import Stream


class Directory:
    """Finds the streams of a tenant: live here, retained here, or kept by a shared store.

    Another tenant's stream and one that never was are the same answer: None.
    """

    def __init__(self, registry: StreamRegistry, store: StreamStore) -> None:
        self._registry = registry
        self._store = store

    async def find(self, stream_id: str, tenant: str) -> Stream | Recording | None:
        """The stream of this name, if it can outlive its connection."""
        found: Stream | Recording | None
        stream = self._registry.get(stream_id)
        if stream is None:
            found = await self._store.find(stream_id)
        else:
            found = stream if stream.retained else None
        return found if found is not None and _has(found, tenant, None) else None

    async def cancel(
        self, stream_id: str, tenant: str, branch: int | None = None
    ) -> Outcome | None:
        """Cancel the stream, or a branch of it, and say how it ended. Idempotent.

        None: there is no such stream or branch.
        """
        stream = self._registry.get(stream_id)
        if stream is None:
            return await self._cancel_elsewhere(stream_id, tenant, branch)
        if not _has(stream, tenant, branch):
            return None
        stream.cancel(branch)
        return stream.outcome if branch is None else stream.branches[branch].outcome

    async def forget(self, stream_id: str, tenant: str) -> None:
        """End the stream if it runs, and find it no more. Idempotent."""
        stream = self._registry.get(stream_id)
        if stream is not None and _has(stream, tenant, None):
            # Its readers drain to the end that they are told now; nobody else finds it.
            stream.retained = False
            stream.cancel(None)
        elif await self._cancel_elsewhere(stream_id, tenant, None) is None:
            return
        await self._store.discard(stream_id)

    async def _cancel_elsewhere(
        self, stream_id: str, tenant: str, branch: int | None
    ) -> Outcome | None:
        recording = await self._store.find(stream_id)
        if recording is None or not _has(recording, tenant, branch):
            return None
        if recording.outcome is None:
            await self._store.cancel(stream_id, branch)
        return recording.outcome or Outcome.CANCELLED


def _has(found: Stream | Recording, tenant: str, branch: int | None) -> bool:
    descriptor = found.descriptor
    return descriptor.tenant == tenant and (branch is None or branch < len(descriptor.branches))
