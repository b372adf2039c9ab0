"""What the client of threads and that of asyncio have in common: everything but the waiting."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from millstream.client.follower import Follower, OnGap
from millstream.client.reconnect import ReconnectPolicy
from millstream.client.server import Server

StreamT = TypeVar("StreamT")


class BaseClient(ABC, Generic[StreamT]):
    """Begins reads on one server; raises ValueError for no http or https address."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        policy: ReconnectPolicy | None,
        idle_seconds: float | None,
    ) -> None:
        self._server = Server(base_url, api_key, policy, idle_seconds)

    def stream(
        self,
        *,
        integrity: bool = True,
        idempotency_key: str | None = None,
        on_gap: OnGap = "raise",
        policy: ReconnectPolicy | None = None,
        **parameters: object,
    ) -> StreamT:
        """Make a stream: ``model`` with ``messages`` or ``prompt``, or ``branches``, and sampling.

        Nothing is sent before it is iterated. Raises ValueError for a bad ``idempotency_key``.
        """
        follower = self._server.making(
            parameters, integrity=integrity, key=idempotency_key, on_gap=on_gap, policy=policy
        )
        return self._stream(follower)

    def follow(
        self,
        stream: str,
        *,
        after: str | None = None,
        integrity: bool = False,
        on_gap: OnGap = "raise",
        policy: ReconnectPolicy | None = None,
    ) -> StreamT:
        """Read a stream that exists, named by id or URL, from the beginning or ``after`` an event.

        Checksums are compared if it has them; ``integrity`` insists on them. Raises ValueError for
        a URL of another server and for a malformed event id.
        """
        follower = self._server.following(
            stream, after=after, integrity=integrity, on_gap=on_gap, policy=policy
        )
        return self._stream(follower)

    @abstractmethod
    def _stream(self, follower: Follower) -> StreamT:
        """The stream that this follower reads."""
