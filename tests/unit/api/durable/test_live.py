from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.types import Message

from millstream import SseParser
from millstream.api.durable.live import LiveResponse
from millstream.durable import Append, Creation, DurableStream
from tests.unit.api.durable.conftest import SECOND, Stand
from tests.unit.durable.making import JSON, TEXT, created, media_type, text
from tests.waiting import HANG_SECONDS, until_true

CLOSE = Append(b"", close=True)


class Client:
    """One reader on the other side of ASGI."""

    def __init__(self, response: LiveResponse) -> None:
        self.messages: list[Message] = []
        self.left = asyncio.Event()
        self.blocked: asyncio.Event | None = None
        self.task = asyncio.ensure_future(response({"type": "http"}, self.receive, self.send))

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.messages.append(message)
        if self.blocked is not None:
            await self.blocked.wait()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)

    def events(self) -> list[tuple[str, str]]:
        return [(event.event, event.data) for event in SseParser().feed(self.body)]

    async def sees(self, needle: bytes) -> None:
        await until_true(lambda: needle in self.body)

    async def ends(self) -> bool:
        """Whether the body was complete when the response ended."""
        await asyncio.wait_for(self.task, HANG_SECONDS)
        return self.messages[-1].get("more_body") is False


@pytest.fixture
def made(stand: Stand) -> DurableStream:
    return created(stand.service.streams, Creation(TEXT))


@pytest.fixture
async def clients() -> AsyncIterator[list[Client]]:
    clients: list[Client] = []
    yield clients
    for client in clients:
        client.left.set()
        await asyncio.wait_for(client.task, HANG_SECONDS)


def reader(stand: Stand, of: DurableStream, clients: list[Client], position: int = 0) -> Client:
    clients.append(Client(LiveResponse(of, position, None, service=stand.service)))
    return clients[-1]


async def test_content_comes_with_where_it_ends_and_then_as_it_is_appended(
    stand: Stand, made: DurableStream, clients: list[Client]
) -> None:
    made.append(text(b"old"), 0)
    client = reader(stand, made, clients)
    await client.sees(made.offset().encode())
    made.append(text(b"new"), 0)
    await client.sees(made.offset().encode())

    (_, first), (control, told), (_, second), _ = client.events()

    assert (first, control, second) == ("old", "control", "new")
    assert '"upToDate":true' in told


async def test_a_reader_at_the_end_is_told_so_before_anything_comes(
    stand: Stand, made: DurableStream, clients: list[Client]
) -> None:
    client = reader(stand, made, clients)
    await client.sees(b"upToDate")

    assert [name for name, _ in client.events()] == ["control"]


async def test_the_last_append_comes_before_the_end(
    stand: Stand, made: DurableStream, clients: list[Client]
) -> None:
    client = reader(stand, made, clients)
    await client.sees(b"upToDate")
    made.append(text(b"last", close=True), 0)

    assert await client.ends()
    assert [data for _, data in client.events()][1] == "last"
    assert '"streamClosed":true' in client.events()[-1][1]
    assert "streamCursor" not in client.events()[-1][1]


async def test_a_stream_that_closes_without_more_ends_its_readers(
    stand: Stand, made: DurableStream, clients: list[Client]
) -> None:
    client = reader(stand, made, clients)
    await client.sees(b"upToDate")
    made.append(CLOSE, 0)

    assert await client.ends()
    assert len(client.events()) == 2


async def test_a_long_stream_comes_in_parts_each_with_its_place(
    stand: Stand, clients: list[Client]
) -> None:
    made = created(
        stand.service.streams, Creation(JSON, body=b"[%s]" % b",".join([b"1234567"] * 300))
    )
    client = reader(stand, made, clients)
    await client.sees(b"upToDate")

    names = [name for name, _ in client.events()]

    assert names == ["data", "control"] * 3
    assert all(len(data) < 1100 for _, data in client.events())


async def test_a_character_cut_by_an_append_comes_whole(
    stand: Stand, made: DurableStream, clients: list[Client]
) -> None:
    euro = "€".encode()
    client = reader(stand, made, clients)
    made.append(text(b"5 " + euro[:1]), 0)
    await client.sees(b"5 ")
    made.append(text(euro[1:]), 0)
    await client.sees(euro)

    assert "".join(data for name, data in client.events() if name == "data") == "5 €"


async def test_a_character_that_never_gets_whole_does_not_hang_the_end(
    stand: Stand, made: DurableStream, clients: list[Client]
) -> None:
    made.append(text(b"a\xe2\x82", close=True), 0)
    client = reader(stand, made, clients)

    assert await client.ends()
    assert client.events()[0] == ("data", "a\ufffd")


async def test_bytes_are_base64_and_the_head_says_so(stand: Stand, clients: list[Client]) -> None:
    made = created(stand.service.streams, Creation(media_type("image/png"), body=b"\x89PNG"))
    client = reader(stand, made, clients)
    await client.sees(b"upToDate")

    assert (b"stream-sse-data-encoding", b"base64") in client.messages[0]["headers"]
    assert client.events()[0] == ("data", "iVBORw==")


async def test_silence_is_filled_with_comments(
    stand: Stand, made: DurableStream, clients: list[Client]
) -> None:
    stand.change(keep_alive_seconds=0.001)
    client = reader(stand, made, clients)
    await client.sees(b"\n\n:\n:\n")
    made.append(text(b"x"), 0)
    await client.sees(b"data:x")

    assert [data for name, data in client.events() if name == "data"] == ["x"]


async def test_comments_can_be_switched_off(
    stand: Stand, made: DurableStream, clients: list[Client]
) -> None:
    settings = stand.service.settings.model_copy(update={"sse_seconds": 0.05})
    stand.change(keep_alive_seconds=0, settings=settings)
    client = reader(stand, made, clients)

    assert await client.ends()
    assert b":\n:" not in client.body
    # The head, the place, the end.
    assert len(client.messages) == 3


async def test_a_connection_ends_in_good_order_when_its_time_is_over(
    stand: Stand, made: DurableStream, clients: list[Client]
) -> None:
    settings = stand.service.settings.model_copy(update={"sse_seconds": 0.001})
    stand.change(settings=settings)

    assert await reader(stand, made, clients).ends()


@pytest.mark.parametrize("how", ["deleted", "expired", "leaving"])
async def test_a_stream_that_is_gone_ends_its_readers(
    stand: Stand, clients: list[Client], how: str
) -> None:
    streams = stand.service.streams
    made = created(streams, Creation(TEXT))
    client = reader(stand, made, clients)
    await client.sees(b"upToDate")
    if how == "deleted":
        streams.delete(("default", "a"), 0)
    elif how == "expired":
        streams.close()
    else:
        stand.leaving = True
        streams.sweep(0)

    assert await client.ends()


async def test_a_client_that_leaves_leaves_nothing_behind(
    stand: Stand, made: DurableStream, clients: list[Client]
) -> None:
    client = reader(stand, made, clients)
    await client.sees(b"upToDate")
    assert len(made.waiters) == 1
    client.left.set()

    assert not await client.ends()
    assert len(made.waiters) == 0
    assert made._readers == 0


async def test_a_client_that_takes_nothing_is_given_up(
    stand: Stand, made: DurableStream, clients: list[Client]
) -> None:
    stand.change(blocked_send_seconds=0.001)
    client = reader(stand, made, clients)
    await client.sees(b"upToDate")
    client.blocked = asyncio.Event()
    made.append(text(b"x"), 0)

    assert not await client.ends()
    assert made._readers == 0


async def test_cursors_of_one_connection_never_go_back(
    stand: Stand, made: DurableStream, clients: list[Client]
) -> None:
    client = Client(LiveResponse(made, 0, "7000", service=stand.service))
    clients.append(client)
    await client.sees(b"upToDate")
    stand.now_ns = 1_800_000_000 * SECOND
    made.append(text(b"x", close=False), 0)
    await client.sees(b"data:x")

    cursors = [
        int(data.split('streamCursor":"')[1].split('"')[0])
        for name, data in client.events()
        if name == "control"
    ]

    assert cursors[0] == 7001
    assert cursors[1] > cursors[0]
