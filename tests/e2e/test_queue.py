"""Waiting for a limit on a real server, and leaving meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from tests.e2e.http1 import Connection
from tests.e2e.servers import Server
from tests.e2e.test_http1 import CHAT, chat
from tests.waiting import until

LONG = {"max_tokens": 1500, "ignore_eos": True}


@contextmanager
def holding(server: Server, model: str) -> Iterator[Connection]:
    """A stream that has the only place until its connection is closed."""
    with Connection(server.port) as connection:
        connection.post(CHAT, chat(model=model, **LONG))
        connection.read_until(b"data: ")
        yield connection
    until(lambda: server.metric("millstream_active_streams") == 0)


def whole(server: Server, model: str, *, seconds: float = 60) -> int:
    body = chat(model=model, stream=False, max_tokens=2)
    return httpx.post(f"{server.url}{CHAT}", json=body, timeout=seconds).status_code


def refused(server: Server, model: str) -> bool:
    """Whether a request may not even wait; one that may is given up at once."""
    try:
        return whole(server, model, seconds=2) == 429
    except httpx.TimeoutException:
        return False


def test_requests_are_answered_one_after_another_instead_of_refused(idle: Server) -> None:
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: whole(idle, "one-after-another"), range(8)))
    assert statuses == [200] * 8


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_while_it_waits_is_heard_at_once(idle: Server, stream: bool) -> None:
    # litellm#31499, bifrost#7106: nothing listened until the first chunk.
    model = "one-waits"
    with holding(idle, model) as holder:
        with Connection(idle.port) as waiting:
            waiting.post(CHAT, chat(model=model, **LONG, stream=stream))
            idle.get("/healthz")  # what came before this is waiting by now
            until(lambda: refused(idle, model))
        until(lambda: not refused(idle, model))
        with ThreadPoolExecutor(1) as pool:
            # The one that was given up above may have its place for a moment yet.
            behind = pool.submit(until, lambda: whole(idle, model) == 200)
            holder.close()
            behind.result()


def test_a_stream_that_had_to_wait_hears_its_client_leave(idle: Server) -> None:
    # `receive` was asked, and given up, while the request waited.
    model = "one-after-another"
    with holding(idle, model) as holder, Connection(idle.port) as waiting:
        waiting.post(CHAT, chat(model=model, **LONG))
        holder.close()
        waiting.read_until(b"data: ")
    until(lambda: idle.metric("millstream_active_streams") == 0)
    assert whole(idle, model) == 200
