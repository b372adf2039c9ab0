from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.unit.api.durable.conftest import Stand
from tests.waiting import HANG_SECONDS, until_true

TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}


async def offset(client: httpx.AsyncClient, path: str = "/a") -> str:
    return (await client.head(path)).headers["stream-next-offset"]


async def test_a_long_stream_is_read_in_parts_and_only_the_last_is_up_to_date(
    client: httpx.AsyncClient,
) -> None:
    await client.put("/a", headers={**TEXT, "stream-closed": "true"}, content=b"x" * 2500)
    sizes, marks, position = [], [], "-1"
    for _ in range(4):
        answer = await client.get(f"/a?offset={position}")
        position = answer.headers["stream-next-offset"]
        sizes.append(len(answer.content))
        marks.append(("stream-up-to-date" in answer.headers, "stream-closed" in answer.headers))

    assert sizes == [1024, 1024, 452, 0]
    assert marks == [(False, False), (False, False), (True, True), (True, True)]


async def test_now_is_the_end_and_no_cache_keeps_it(client: httpx.AsyncClient) -> None:
    await client.put("/a", headers=JSON, content=b"[1,2]")

    answer = await client.get("/a?offset=now")

    assert answer.content == b"[]"
    assert answer.headers["stream-next-offset"] == await offset(client)
    assert answer.headers["cache-control"] == "no-store"
    assert "etag" not in answer.headers


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("offset=", 400),
        ("offset=x", 400),
        ("offset=-1&offset=-1", 400),
        ("offset=-1&live=yes", 400),
        ("live=long-poll", 400),
        ("live=sse", 400),
        ("offset=-1&unknown=1", 200),
    ],
)
async def test_a_query_that_means_nothing_is_refused(
    client: httpx.AsyncClient, query: str, status: int
) -> None:
    await client.put("/a", headers=TEXT, content=b"x")

    assert (await client.get(f"/a?{query}")).status_code == status


async def test_an_offset_of_an_earlier_stream_does_not_read_the_later_one(
    client: httpx.AsyncClient,
) -> None:
    await client.put("/a", headers=TEXT, content=b"old")
    earlier = await offset(client)
    await client.delete("/a")
    await client.put("/a", headers=TEXT, content=b"longer than before")

    answer = await client.get(f"/a?offset={earlier}")

    assert answer.status_code == 410


async def test_an_offset_ahead_of_the_end_is_refused(client: httpx.AsyncClient) -> None:
    await client.put("/a", headers=TEXT, content=b"abc")
    ahead = (await offset(client)).replace("03_", "04_")

    assert (await client.get(f"/a?offset={ahead}")).status_code == 400


async def test_a_tag_holds_until_anything_that_the_answer_tells_changes(
    client: httpx.AsyncClient,
) -> None:
    await client.put("/a", headers=TEXT, content=b"abc")
    first = (await client.get("/a")).headers["etag"]

    for condition in (first, f'"other", W/{first}', "*"):
        same = await client.get("/a", headers={"if-none-match": condition})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", first)

    await client.post("/a", headers={"stream-closed": "true"})
    closed = await client.get("/a", headers={"if-none-match": first})
    assert (closed.status_code, closed.headers["stream-closed"]) == (200, "true")


async def test_content_may_be_kept_by_the_clients_cache_and_its_absence_may_not(
    client: httpx.AsyncClient,
) -> None:
    await client.put("/a", headers=TEXT, content=b"abc")

    assert "private, max-age=60" in (await client.get("/a")).headers["cache-control"]
    empty = await client.get(f"/a?offset={await offset(client)}")
    assert empty.headers["cache-control"] == "no-store"


async def test_a_long_poll_answers_at_once_with_what_is_there(client: httpx.AsyncClient) -> None:
    await client.put("/a", headers=TEXT, content=b"abc")

    answer = await client.get("/a?offset=-1&live=long-poll&cursor=5")

    assert (answer.status_code, answer.content) == (200, b"abc")
    assert int(answer.headers["stream-cursor"]) > 5


async def waiting_poll(client: httpx.AsyncClient, stand: Stand) -> asyncio.Task[httpx.Response]:
    task = asyncio.ensure_future(client.get("/a?offset=now&live=long-poll"))
    found = stand.service.streams.find(("default", "a"), 0)
    assert found is not None
    await until_true(lambda: len(found.waiters))
    return task


async def test_a_long_poll_waits_for_an_append(client: httpx.AsyncClient, stand: Stand) -> None:
    await client.put("/a", headers=TEXT, content=b"old")
    task = await waiting_poll(client, stand)

    await client.post("/a", headers=TEXT, content=b"new")

    answer = await asyncio.wait_for(task, HANG_SECONDS)
    assert (answer.status_code, answer.content) == (200, b"new")
    assert answer.headers["cache-control"] == "no-store"


async def test_a_long_poll_ends_with_the_stream(client: httpx.AsyncClient, stand: Stand) -> None:
    await client.put("/a", headers=TEXT)
    task = await waiting_poll(client, stand)
    await client.post("/a", headers={"stream-closed": "true"})

    answer = await asyncio.wait_for(task, HANG_SECONDS)

    assert (answer.status_code, answer.headers["stream-closed"]) == (204, "true")
    assert "stream-cursor" not in answer.headers


async def test_a_long_poll_of_a_deleted_stream_is_told_so(
    client: httpx.AsyncClient, stand: Stand
) -> None:
    await client.put("/a", headers=TEXT)
    task = await waiting_poll(client, stand)
    await client.delete("/a")

    assert (await asyncio.wait_for(task, HANG_SECONDS)).status_code == 404


async def test_a_long_poll_does_not_hold_up_a_worker_that_leaves(
    client: httpx.AsyncClient, stand: Stand
) -> None:
    await client.put("/a", headers=TEXT)
    task = await waiting_poll(client, stand)
    stand.leaving = True
    stand.service.streams.sweep(0)

    answer = await asyncio.wait_for(task, HANG_SECONDS)

    assert (answer.status_code, answer.headers["stream-up-to-date"]) == (204, "true")


async def test_a_long_poll_ends_when_its_time_is_over(
    client: httpx.AsyncClient, stand: Stand
) -> None:
    settings = stand.service.settings.model_copy(update={"long_poll_seconds": 0.001})
    stand.change(settings=settings)
    await client.put("/a", headers=TEXT)

    answer = await asyncio.wait_for(client.get("/a?offset=-1&live=long-poll"), HANG_SECONDS)

    assert (answer.status_code, answer.headers["cache-control"]) == (204, "no-store")
    assert answer.headers["stream-cursor"].isdecimal()
