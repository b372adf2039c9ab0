"""Something is waited for as long as the client waits for it."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from millstream.api.connected import ClientLeft, WhileConnected


class Client:
    """A connection whose body has been read."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.asked = 0

    async def receive(self) -> Message:
        self.asked += 1
        await self.gone.wait()
        return {"type": "http.disconnect"}


async def waiting(client: Client) -> None:
    async with WhileConnected(client.receive):
        await asyncio.Event().wait()


async def test_what_does_not_wait_does_not_listen() -> None:
    client = Client()
    async with WhileConnected(client.receive):
        pass
    await asyncio.sleep(0)
    assert client.asked == 0


async def test_what_ends_first_stops_listening() -> None:
    client = Client()
    before = asyncio.all_tasks()
    async with WhileConnected(client.receive):
        for _ in range(5):
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert client.asked == 1
    assert asyncio.all_tasks() == before


async def test_the_leaving_client_ends_the_wait() -> None:
    client = Client()
    asyncio.get_running_loop().call_later(0, client.gone.set)
    with pytest.raises(ClientLeft) as left:
        await waiting(client)
    assert isinstance(left.value.__cause__, asyncio.CancelledError)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_a_client_that_leaves_in_the_moment_of_the_end_cancels_nothing_afterwards() -> None:
    client = Client()
    async with WhileConnected(client.receive):
        for _ in range(3):
            await asyncio.sleep(0)
        client.gone.set()
        await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_connection_that_breaks_is_gone_as_well() -> None:
    async def receive() -> Message:
        raise OSError("reset")

    with pytest.raises(ClientLeft):
        async with WhileConnected(receive):
            await asyncio.Event().wait()


async def test_a_failure_inside_is_its_own() -> None:
    async def fail() -> None:
        async with WhileConnected(Client().receive):
            await asyncio.sleep(0)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()


async def test_whoever_else_cancels_the_task_means_it() -> None:
    client = Client()
    alone = asyncio.create_task(waiting(client))
    both = asyncio.create_task(waiting(client))
    for _ in range(3):
        await asyncio.sleep(0)
    alone.cancel()
    await asyncio.sleep(0)
    client.gone.set()
    both.cancel()
    results = await asyncio.gather(alone, both, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] * 2


async def test_a_timeout_around_it_stays_a_timeout() -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting(Client()), 0.01)
