"""Streams by their name, wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.streams.following import until
from millstream.types import Outcome

if TYPE_CHECKING:
    from millstream.store import Recording, StreamStore
    from millstream.streams.hub import Wakeups
    from millstream.streams.registry import StreamRegistry
    from millstream.streams.stream import Stream


# A record reaches other processes within the store's `flush_ms`, a word to its producer takes as
# long again.
PATIENCE_SECONDS = 2.0


class Directory:
    """Finds the streams of a tenant: live here, retained here, or kept by a shared store.

    Another tenant's stream and one that never was are the same answer: None.
    """

    def __init__(
        self,
        registry: StreamRegistry,
        store: StreamStore,
        wakeups: Wakeups,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._registry = registry
        self._store = store
        self._wakeups = wakeups
        self._patience_seconds = patience_seconds

    async def find(
        self, stream_id: str, tenant: str, *, reaching: int = 0
    ) -> Stream | Recording | None:
        """The stream of this name, if it can outlive its connection.

        A client may have seen the record of seq ``reaching`` before it came here from another
        process; it is waited for.
        """
        stream = self._registry.get(stream_id)
        if stream is not None:
            return stream if stream.retained and _has(stream, tenant, None) else None
        recording = await self._store.find(stream_id)
        if recording is None or not _has(recording, tenant, None):
            return None
        await self._until(lambda: recording.log.tail >= reaching, recording)
        return recording

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
        outcome = _outcome(recording, branch)
        if outcome is None and await self._store.cancel(stream_id, branch):
            await self._until(lambda: _outcome(recording, branch) is not None, recording)
        # No answer yet: the word is on its way, and a second one would change nothing.
        return _outcome(recording, branch) or Outcome.CANCELLED

    async def _until(self, condition: Callable[[], bool], recording: Recording) -> None:
        if condition():
            return
        recording.attach()
        try:
            await until(condition, recording.log, self._wakeups, seconds=self._patience_seconds)
        finally:
            recording.detach()


def _has(found: Stream | Recording, tenant: str, branch: int | None) -> bool:
    descriptor = found.descriptor
    return descriptor.tenant == tenant and (branch is None or branch < len(descriptor.branches))


def _outcome(recording: Recording, branch: int | None) -> Outcome | None:
    text = None if branch is None else recording.log.outcome_of(branch)
    return recording.outcome if text is None else Outcome(text)
