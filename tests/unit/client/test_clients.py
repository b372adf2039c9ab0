"""Both clients over real sockets, against a server that cuts them off."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import httpx
import pytest

import millstream.client
from millstream.client import (
    AsyncClient,
    Client,
    ConnectionLost,
    ReconnectPolicy,
    RequestRefused,
    StreamNotFound,
)
from millstream.types import Outcome, Usage
from tests.reference.native import USAGE, completed
from tests.unit.client.double import Double, serving
from tests.unit.client.reading import AT_ONCE

STREAM = completed([f"wörd{n} " for n in range(17)], "stream/1")
FRAMES = STREAM.frames()
SIZE = sum(len(frame.data) for frame in FRAMES)
LONGEST = max(len(frame.data) for frame in FRAMES)


@pytest.fixture
def double() -> Iterator[Double]:
    with serving(Double(STREAM)) as double:
        yield double


@pytest.fixture
def client(double: Double) -> Iterator[Client]:
    with Client(double.url, "secret", policy=AT_ONCE) as client:
        yield client


@pytest.fixture
async def async_client(double: Double) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(double.url, "secret", policy=AT_ONCE) as client:
        yield client


Read = Callable[[], Awaitable[str]]


@pytest.fixture(params=["sync", "async"])
def read(request: pytest.FixtureRequest, client: Client, async_client: AsyncClient) -> Read:
    """The whole text of a new stream, by one of the clients."""

    async def read() -> str:
        if request.param == "sync":
            return "".join(client.stream(model="m", prompt="p"))
        return "".join([text async for text in async_client.stream(model="m", prompt="p")])

    return read


async def test_a_stream_is_made_and_read(read: Read, double: Double) -> None:
    assert await read() == STREAM.text
    (asked,) = double.requests
    assert (asked.method, asked.path) == ("POST", "/v1/streams")
    assert asked.headers["authorization"] == "Bearer secret"
    assert asked.headers["content-type"] == "application/json"
    assert json.loads(asked.body)["integrity"] is True


@pytest.mark.parametrize("most", [LONGEST, LONGEST + 13, 3 * LONGEST])
async def test_the_text_is_whole_though_every_connection_is_cut(
    read: Read, double: Double, most: int
) -> None:
    double.cut = lambda _nth: most
    assert await read() == STREAM.text
    first, *more = double.requests
    assert first.method == "POST"
    assert {(one.method, one.path) for one in more} == {
        ("GET", "/v1/streams/stream%2F1?dialect=native")
    }
    assert all(one.headers["authorization"] == "Bearer secret" for one in more)


@pytest.mark.parametrize("kept", range(0, SIZE, 101))
async def test_the_text_is_whole_wherever_the_cut_is(read: Read, double: Double, kept: int) -> None:
    double.cut = lambda nth: kept if nth == 1 else None
    assert await read() == STREAM.text
    assert len(double.requests) == 2


async def test_an_unanswered_request_is_repeated_and_not_made_twice(
    read: Read, double: Double
) -> None:
    double.unanswered = 2
    assert await read() == STREAM.text
    assert {one.method for one in double.requests} == {"POST"}
    assert len({one.headers["idempotency-key"] for one in double.requests}) == 1
    assert len(double.requests) == 3


async def test_who_never_answers_is_given_up(read: Read, double: Double) -> None:
    double.unanswered = 99
    with pytest.raises(ConnectionLost) as lost:
        await read()
    assert isinstance(lost.value.__cause__, httpx.TransportError)
    assert len(double.requests) == AT_ONCE.max_attempts


async def test_a_refusal_carries_the_servers_words(read: Read, double: Double) -> None:
    double.status = 422
    with pytest.raises(RequestRefused, match="422: told to") as refused:
        await read()
    assert refused.value.failure is not None
    assert refused.value.failure.code == "told"


def test_all_that_a_stream_said_can_be_seen(client: Client) -> None:
    stream = client.stream(model="m", prompt="p")
    assert (stream.id, stream.text, stream.outcome, stream.last_event_id) == (None, "", None, None)

    tokens = sum(piece.tokens for piece in stream.pieces())

    assert tokens == 17
    assert stream.id == "stream/1"
    assert stream.text == STREAM.text == stream.texts[0, 0]
    assert stream.outcome is Outcome.COMPLETED
    assert stream.usage == Usage(USAGE["prompt_tokens"], USAGE["completion_tokens"])
    assert stream.usages.keys() == {0}
    assert stream.finish_reasons == {(0, 0): "stop"}
    assert stream.last_event_id == STREAM.id(len(STREAM.records))
    assert stream.checks is not None
    assert stream.checks.records == 17
    assert (stream.error, stream.gaps, stream.outcomes) == (None, [], {})
    assert (stream.connections, stream.restarts) == (1, 0)
    assert repr(stream) == f"<Stream stream/1 at {stream.last_event_id}, completed>"


def test_a_read_goes_on_where_another_stopped(client: Client, double: Double) -> None:
    with client.stream(model="m", prompt="p") as first:
        texts = iter(first)
        begin = next(texts) + next(texts)
    assert first.id is not None

    rest = "".join(client.follow(first.id, after=first.last_event_id))

    assert begin + rest == STREAM.text
    assert double.requests[-1].headers["last-event-id"] == STREAM.id(2)


async def test_an_async_read_goes_on_where_another_stopped(async_client: AsyncClient) -> None:
    async with async_client.stream(model="m", prompt="p") as first:
        texts = aiter(first)
        begin = await anext(texts) + await anext(texts)
    assert first.id is not None

    rest = [text async for text in async_client.follow(first.id, after=first.last_event_id)]

    assert begin + "".join(rest) == STREAM.text


@pytest.mark.parametrize(
    "name", ["stream/1", "/v1/streams/stream%2F1", "{url}/v1/streams/stream%2F1?x=1"]
)
def test_a_stream_is_followed_by_its_id_or_url(client: Client, double: Double, name: str) -> None:
    assert "".join(client.follow(name.format(url=double.url), integrity=True)) == STREAM.text
    assert double.requests[0].path == "/v1/streams/stream%2F1?dialect=native"


def test_the_key_is_not_taken_to_another_server(client: Client) -> None:
    with pytest.raises(ValueError, match="is not on"):
        client.follow("http://evil.example/v1/streams/s1")


@pytest.mark.parametrize("address", ["", "127.0.0.1:8000", "ftp://host", "/v1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="not an http or https address"):
        Client(address)


def test_the_address_of_the_api_is_that_of_its_server(double: Double) -> None:
    with Client(f"{double.url}/v1/", policy=AT_ONCE) as client:
        assert "".join(client.stream(model="m", prompt="p")) == STREAM.text
    assert double.requests[0].path == "/v1/streams"
    assert "authorization" not in double.requests[0].headers


async def test_a_stream_is_cancelled(
    client: Client, async_client: AsyncClient, double: Double
) -> None:
    client.cancel("s/1")
    await async_client.cancel("s/1")
    with client.stream(model="m", prompt="p") as stream:
        next(iter(stream))
        stream.cancel()
    async with async_client.stream(model="m", prompt="p") as async_stream:
        await anext(aiter(async_stream))
        await async_stream.cancel()
    paths = [one.path for one in double.requests if one.path.endswith("/cancel")]
    assert paths == ["/v1/streams/s%2F1/cancel"] * 2 + ["/v1/streams/stream%2F1/cancel"] * 2


def test_a_stream_that_was_cancelled_before_it_was_made_is_not_made(
    client: Client, double: Double
) -> None:
    stream = client.stream(model="m", prompt="p")
    stream.cancel()
    assert list(stream) == []
    assert double.requests == []


async def test_a_cancel_while_the_stream_is_being_made_is_made_up_for(
    async_client: AsyncClient, double: Double
) -> None:
    stream = async_client.stream(model="m", prompt="p")
    with double.silent():
        reading = asyncio.ensure_future(anext(aiter(stream)))
        while not double.requests:  # noqa: ASYNC110 - another thread's list
            await asyncio.sleep(0.005)
        await stream.cancel()
    await reading
    await stream.close()
    assert [one.path for one in double.requests] == [
        "/v1/streams",
        "/v1/streams/stream%2F1/cancel",
    ]


def test_a_refused_cancel_is_raised(client: Client, double: Double) -> None:
    double.cancel_status = 404
    with pytest.raises(StreamNotFound, match="told to"):
        client.cancel("s1")


async def test_connections_of_the_callers_own_stay_open(double: Double) -> None:
    with httpx.Client() as http:
        with Client(double.url, http=http) as client:
            assert "".join(client.follow(STREAM.stream_id)) == STREAM.text
        assert not http.is_closed
    async with httpx.AsyncClient() as async_http:
        async with AsyncClient(double.url, http=async_http) as async_client:
            assert [text async for text in async_client.follow(STREAM.stream_id)] != []
        assert not async_http.is_closed


def test_silence_counts_as_a_cut(double: Double) -> None:
    policy = ReconnectPolicy(base_seconds=0.0, max_attempts=1)
    with Client(double.url, policy=policy, idle_seconds=0.05) as client, double.silent():
        with pytest.raises(ConnectionLost) as lost:
            list(client.stream(model="m", prompt="p"))
        assert isinstance(lost.value.__cause__, httpx.ReadTimeout)


def test_without_httpx_the_clients_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    for module in ("library", "server", "sync_client"):
        monkeypatch.delitem(sys.modules, f"millstream.client.{module}", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'millstream\[client\]'"):
        millstream.client.Client  # noqa: B018 - its first use loads it
    assert millstream.client.Follower is not None


def test_the_public_names_are_sorted_exist_and_are_described() -> None:
    names = millstream.client.__all__
    assert sorted(names) == names
    assert all(getattr(millstream.client, name).__doc__ for name in names)
    assert not hasattr(millstream.client, "Nothing")
