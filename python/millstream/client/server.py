"""The server whose streams are read, and how."""

from __future__ import annotations

from typing import Any

from millstream.client import request as requests
from millstream.client.follower import Attempt, Follower, OnGap
from millstream.client.library import arguments, httpx, timeout_of
from millstream.client.reconnect import ReconnectPolicy
from millstream.event_id import EventId


class Server:
    """Where it is and how it is asked; raises ValueError for no http or https address."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        policy: ReconnectPolicy | None,
        idle_seconds: float | None,
    ) -> None:
        self.base_url = requests.server_of(base_url)
        self._api_key = api_key
        self._policy = policy or ReconnectPolicy()
        self._idle_seconds = idle_seconds

    def making(
        self,
        parameters: dict[str, object],
        *,
        integrity: bool,
        key: str | None,
        on_gap: OnGap,
        policy: ReconnectPolicy | None,
    ) -> Follower:
        """The read of a stream that is made by it."""
        return Follower(
            opening=requests.opening(parameters, integrity=integrity, key=key),
            integrity=integrity,
            on_gap=on_gap,
            policy=policy or self._policy,
        )

    def following(
        self,
        stream: str,
        *,
        after: str | None,
        integrity: bool,
        on_gap: OnGap,
        policy: ReconnectPolicy | None,
    ) -> Follower:
        """The read of a stream that exists."""
        return Follower(
            stream_id=requests.stream_id_of(stream, self.base_url),
            after=None if after is None else EventId.parse(after),
            integrity=integrity,
            on_gap=on_gap,
            policy=policy or self._policy,
        )

    def arguments(self, request: requests.Request) -> dict[str, Any]:
        """A request in httpx's terms."""
        return arguments(request, self.base_url, self._api_key)

    def timeout(self, attempt: Attempt) -> httpx.Timeout:
        """The silence that counts as a cut."""
        return timeout_of(attempt, self._idle_seconds)
