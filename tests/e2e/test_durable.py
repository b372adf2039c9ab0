"""Durable streams over real sockets: live readers, cut readers, fenced writers, bounds."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Protocol

import httpx
import pytest

from millstream import SseParser
from tests.e2e.durable_app import STREAM_BYTES
from tests.e2e.http1 import Connection
from tests.e2e.servers import Server, serving
from tests.ports import free_port
from tests.waiting import until

ROOT = Path(__file__).parents[2]
TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One worker with nothing but durable streams."""
    port = free_port()
    command = [
        sys.executable, "-m", "granian", "--interface", "asgi", "--host", "127.0.0.1",
        "--port", str(port), "--working-dir", str(ROOT), "tests.e2e.durable_app:app",
    ]  # fmt: skip
    with serving(command, port=port, folder=tmp_path_factory.mktemp("durable")) as server:
        yield server


_paths = count(1)


@pytest.fixture
def path() -> str:
    return f"/v1/durable/test/{next(_paths)}"


@pytest.fixture
def client(durable: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=durable.url, timeout=120) as client:
        yield client


class Live(Protocol):
    """Opens a reader by server-sent events whose socket the test holds."""

    def __call__(self, offset: str = "-1", *, receive_buffer: int | None = None) -> Connection: ...


@pytest.fixture
def live(durable: Server, client: httpx.Client, path: str) -> Iterator[Live]:
    with contextlib.ExitStack() as stack:

        def read(offset: str = "-1", *, receive_buffer: int | None = None) -> Connection:
            connection = stack.enter_context(Connection(durable.port, receive_buffer))
            request = f"GET {path}?offset={offset}&live=sse HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            connection.socket.sendall(request.encode())
            return connection

        yield read


def events(connection: Connection) -> list[tuple[str, str]]:
    return [(event.event, event.data) for event in SseParser().feed(connection.body)]


def last_offset(connection: Connection) -> str:
    """Where the last control event says the reader is."""
    controls = [json.loads(data) for name, data in events(connection) if name == "control"]
    found: str = controls[-1]["streamNextOffset"]
    return found


def content(connection: Connection) -> str:
    return "".join(data for name, data in events(connection) if name == "data")


def test_a_long_poll_wakes_with_what_is_appended(client: httpx.Client, path: str) -> None:
    client.put(path, headers=TEXT, content=b"old")
    end = client.head(path).headers["stream-next-offset"]

    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(client.get, f"{path}?offset={end}&live=long-poll")
        client.post(path, headers=TEXT, content=b"new")
        answer = waiting.result()  # a 204 if nothing woke it

    assert (answer.status_code, answer.content) == (200, b"new")


def test_a_reader_resumes_where_its_connection_was_cut(
    client: httpx.Client, path: str, live: Live
) -> None:
    client.put(path, headers=TEXT, content=b"one ")
    first = live()
    first.read_until(b"upToDate")
    client.post(path, headers=TEXT, content=b"two ")
    first.read_until(b"two ")
    first.read_until(client.head(path).headers["stream-next-offset"].encode())
    first.socket.close()
    client.post(path, headers={**TEXT, "stream-closed": "true"}, content=b"three")

    second = live(last_offset(first))
    second.read_all()

    assert content(first) + content(second) == "one two three"
    assert second.complete


def test_many_readers_of_one_stream_all_get_all_of_it(
    client: httpx.Client, path: str, live: Live
) -> None:
    client.put(path, headers=JSON)
    readers = [live() for _ in range(20)]
    for number in range(50):
        client.post(path, headers=JSON, content=json.dumps([number, {"n": number}]))
    client.post(path, headers={"stream-closed": "true"})

    for reader in readers:
        reader.read_all()
        batches = [json.loads(data) for name, data in events(reader) if name == "data"]
        found = [value for batch in batches for value in batch]
        assert found == [value for number in range(50) for value in (number, {"n": number})]


def test_readers_that_abort_do_not_keep_a_stream_alive(
    client: httpx.Client, path: str, live: Live
) -> None:
    client.put(path, headers={**TEXT, "stream-ttl": "5"})
    readers = [live() for _ in range(10)]
    for reader in readers:
        reader.read_until(b"upToDate")
        # A reset, not a polite end.
        reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        reader.socket.close()

    until(lambda: client.head(path).status_code == 404, what="the stream expired")


def test_a_reader_that_takes_nothing_is_cut_and_the_others_are_not_held_up(
    client: httpx.Client, path: str, live: Live
) -> None:
    client.put(path, headers={**TEXT, "stream-ttl": "5"})
    stalled = live(receive_buffer=4096)
    reader = live()
    block = b"x" * (4 << 20)
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(reader.read_all)
        for _ in range(2):
            client.post(path, headers=TEXT, content=block)
        client.post(path, headers={**TEXT, "stream-closed": "true"}, content=b"end")
        reading.result()

    assert len(content(reader)) == 2 * len(block) + 3
    # While it counts as a reader, the stream does not expire.
    until(lambda: client.head(path).status_code == 404, what="the stalled reader given up")
    stalled.read_all()

    assert not stalled.complete
    assert b"streamClosed" not in stalled.body


def test_silence_is_filled_with_comments_alone(client: httpx.Client, path: str, live: Live) -> None:
    client.put(path, headers=TEXT)
    reader = live()
    reader.read_until(b"\n\n:\n:\n")

    assert [name for name, _ in events(reader)] == ["control"]


def test_a_batch_is_stored_whole_or_not_at_all(client: httpx.Client, path: str) -> None:
    client.put(path, headers=JSON)

    assert client.post(path, headers=JSON, content=b"[1,2,3").status_code == 400
    assert client.post(path, headers=JSON, content=b"[1,2,[3]]").status_code == 204

    assert client.get(path).json() == [1, 2, [3]]


def test_a_body_that_never_gets_complete_appends_nothing(
    durable: Server, client: httpx.Client, path: str
) -> None:
    client.put(path, headers=TEXT)
    with socket.create_connection(("127.0.0.1", durable.port)) as half:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
        half.sendall(f"{head}Content-Length: 100\r\n\r\nhalf".encode())

    client.post(path, headers=TEXT, content=b"whole")
    assert client.get(path).content == b"whole"


def test_concurrent_retries_of_one_append_store_it_once(client: httpx.Client, path: str) -> None:
    client.put(path, headers=TEXT)

    def append(sequence: int) -> int:
        producer = {"producer-id": "p", "producer-epoch": "0", "producer-seq": str(sequence)}
        return client.post(path, headers={**TEXT, **producer}, content=f"{sequence},").status_code

    with ThreadPoolExecutor(8) as pool:
        for sequence in range(10):
            statuses = sorted(pool.map(append, [sequence] * 8))
            assert statuses == [200] + [204] * 7

    assert client.get(path).text == "".join(f"{sequence}," for sequence in range(10))


def test_a_zombie_is_fenced_off(client: httpx.Client, path: str) -> None:
    client.put(path, headers=TEXT)

    def append(epoch: int, sequence: int) -> httpx.Response:
        producer = {"producer-id": "p", "producer-epoch": str(epoch), "producer-seq": str(sequence)}
        return client.post(path, headers={**TEXT, **producer}, content=f"{epoch}.{sequence} ")

    assert append(0, 0).status_code == 200
    assert append(1, 0).status_code == 200
    zombie = append(0, 1)

    assert (zombie.status_code, zombie.headers["producer-epoch"]) == (403, "1")
    assert client.get(path).text == "0.0 1.0 "


def test_a_full_stream_refuses_what_does_not_fit_and_keeps_what_it_has(
    client: httpx.Client, path: str
) -> None:
    client.put(path, headers=TEXT)
    block = b"x" * (4 << 20)
    statuses = [client.post(path, headers=TEXT, content=block).status_code for _ in range(3)]
    assert statuses == [204, 204, 413]

    answer = client.post(path, headers=TEXT, content=block)
    assert f"durable.max_stream_bytes = {STREAM_BYTES}" in answer.json()["error"]["message"]
    too_long = client.post(path, headers=TEXT, content=block + b"x")
    assert "server.max_body_bytes" in too_long.json()["error"]["message"]

    assert client.post(path, headers=TEXT, content=b"fits").status_code == 204
    assert client.delete(path).status_code == 204


def test_a_stream_deleted_under_its_readers_ends_them(
    client: httpx.Client, path: str, live: Live
) -> None:
    client.put(path, headers=TEXT)
    reader = live()
    reader.read_until(b"upToDate")
    client.delete(path)

    reader.read_all()

    assert reader.complete
