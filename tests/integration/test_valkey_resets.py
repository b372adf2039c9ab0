"""Connections that are reset while nothing is said, on the loop that serves.

uvloop closes the transport then, and writing to it raises RuntimeError, which is no OSError.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop

from millstream.admission.valkey.lease import ValkeyLease
from tests.integration.resetting import relay_to
from tests.integration.valkey_limiters import GENEROUS, Seen, admitted, left_in, limiter_on
from tests.integration.valkey_server import ValkeyServer
from tests.integration.valkey_stores import Producer, Workers, stored
from tests.unit.store.recordings import recording, write


def on_the_serving_loop(scenario: Coroutine[Any, Any, None]) -> None:
    uvloop.run(scenario)


def test_a_limiter_goes_on_counting_in_valkey(valkey: ValkeyServer) -> None:
    async def scenario() -> None:
        seen = Seen()
        async with relay_to(valkey.port) as relay, limiter_on(relay.url, seen=seen) as limiter:
            first = await admitted(limiter, GENEROUS, tokens=100)
            await relay.reset(relay.connections[0])
            assert isinstance(await admitted(limiter, GENEROUS, tokens=100), ValkeyLease)
            await relay.reset(relay.connections[0])
            assert first.settle(40)
            assert await left_in(limiter, GENEROUS) == (98, 9860, 49)
        assert seen.ups == [True]

    on_the_serving_loop(scenario())


def test_a_store_goes_on_storing(valkey: ValkeyServer, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with relay_to(valkey.port) as relay:
            workers = Workers(valkey)
            store = await workers.open(url=relay.url, lease_seconds=30.0)
            stream = recording("a", "one")
            store.publish(stream, Producer())
            await stored(valkey, stream)
            for connection in relay.connections:
                await relay.reset(connection)
                write(stream, " more")
                await stored(valkey, stream)
            await workers.close()

    on_the_serving_loop(scenario())
    assert "store_task_failed" not in [record.getMessage() for record in caplog.records]
