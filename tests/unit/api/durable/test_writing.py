from __future__ import annotations

import httpx
import pytest

from tests.unit.api.durable.conftest import SECOND, Stand

TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}
PRODUCER = {"producer-id": "p", "producer-epoch": "0", "producer-seq": "0"}


def code(answer: httpx.Response) -> str:
    found: str = answer.json()["error"]["code"]
    return found


async def test_a_created_stream_says_where_it_is_and_how_far_it_goes(
    client: httpx.AsyncClient,
) -> None:
    made = await client.put("/a b/ü", headers=TEXT, content=b"hello")

    assert made.status_code == 201
    assert made.headers["content-type"] == "text/plain"
    assert made.headers["location"] == "http://test/v1/durable/a%20b/%C3%BC"
    assert made.headers["stream-next-offset"].startswith(f"{5:016d}_")
    again = await client.put("/a b/ü?x=1", headers=TEXT)
    assert (again.status_code, "location" in again.headers) == (200, False)


async def test_a_stream_made_otherwise_is_a_conflict(client: httpx.AsyncClient) -> None:
    await client.put("/a", headers=TEXT)

    answer = await client.put("/a", headers=JSON)

    assert (answer.status_code, code(answer)) == (409, "stream_exists")


async def test_without_a_media_type_a_stream_holds_bytes(client: httpx.AsyncClient) -> None:
    made = await client.put("/a")

    assert made.headers["content-type"] == "application/octet-stream"


async def test_forks_and_subscriptions_are_refused_by_name(client: httpx.AsyncClient) -> None:
    fork = await client.put("/a", headers={"stream-forked-from": "/v1/durable/b"})
    control = await client.get("/__ds/subscriptions/x")

    assert (fork.status_code, code(fork)) == (501, "forks_not_supported")
    assert (control.status_code, code(control)) == (501, "not_supported")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"content-type": "nonsense"}, "invalid_content_type"),
        ({"stream-ttl": "01"}, "invalid_expiry"),
        ({"stream-expires-at": "soon"}, "invalid_expiry"),
        ({"stream-ttl": "1", "stream-expires-at": "2026-01-01T00:00:00Z"}, "invalid_expiry"),
    ],
)
async def test_a_creation_with_a_bad_field_makes_nothing(
    client: httpx.AsyncClient, headers: dict[str, str], expected: str
) -> None:
    answer = await client.put("/a", headers=headers)

    assert (answer.status_code, code(answer)) == (400, expected)
    assert (await client.head("/a")).status_code == 404


@pytest.mark.parametrize("value", ["false", "1", "yes", ""])
async def test_only_true_closes(client: httpx.AsyncClient, value: str) -> None:
    made = await client.put("/a", headers={"stream-closed": value})
    assert "stream-closed" not in made.headers

    closed = await client.post("/a", headers={"stream-closed": "TRUE"})

    assert (closed.status_code, closed.headers["stream-closed"]) == (204, "true")


async def test_an_append_to_a_closed_stream_says_where_it_ended(client: httpx.AsyncClient) -> None:
    made = await client.put("/a", headers={**TEXT, "stream-closed": "true"}, content=b"all")

    answer = await client.post("/a", headers=TEXT, content=b"more")

    assert (answer.status_code, code(answer)) == (409, "stream_closed")
    assert answer.headers["stream-closed"] == "true"
    assert answer.headers["stream-next-offset"] == made.headers["stream-next-offset"]


async def test_a_producer_learns_whether_its_append_is_new(client: httpx.AsyncClient) -> None:
    await client.put("/a", headers=TEXT)
    headers = {**TEXT, **PRODUCER}

    first = await client.post("/a", headers=headers, content=b"x")
    second = await client.post("/a", headers=headers, content=b"x")

    assert (first.status_code, second.status_code) == (200, 204)
    assert second.headers["producer-epoch"] == second.headers["producer-seq"] == "0"
    assert (await client.get("/a")).content == b"x"


async def test_a_fenced_producer_learns_the_epoch_and_a_hasty_one_its_turn(
    client: httpx.AsyncClient,
) -> None:
    await client.put("/a", headers=TEXT)
    await client.post("/a", headers={**TEXT, **PRODUCER, "producer-epoch": "3"}, content=b"x")

    zombie = await client.post("/a", headers={**TEXT, **PRODUCER}, content=b"y")
    gap = await client.post(
        "/a", headers={**TEXT, **PRODUCER, "producer-epoch": "3", "producer-seq": "5"}, content=b"y"
    )

    assert (zombie.status_code, zombie.headers["producer-epoch"]) == (403, "3")
    assert gap.status_code == 409
    assert gap.headers["producer-expected-seq"] == "1"
    assert gap.headers["producer-received-seq"] == "5"


@pytest.mark.parametrize(
    "headers",
    [
        {"producer-id": "p"},
        {"producer-epoch": "0", "producer-seq": "0"},
        {**PRODUCER, "producer-id": ""},
        {**PRODUCER, "producer-id": "p" * 257},
        {**PRODUCER, "producer-seq": "-1"},
        {**PRODUCER, "producer-seq": "1e3"},
        {**PRODUCER, "producer-epoch": str(2**53)},
    ],
)
async def test_half_a_producer_is_none(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    await client.put("/a", headers=TEXT)

    answer = await client.post("/a", headers={**TEXT, **headers}, content=b"x")

    assert (answer.status_code, code(answer)) == (400, "invalid_producer")


async def test_every_bound_is_named_when_it_is_reached(client: httpx.AsyncClient) -> None:
    await client.put("/a", headers=TEXT)
    await client.post("/a", headers=TEXT, content=b"x" * 6000)
    body = await client.post("/a", headers=TEXT, content=b"x" * 6001)
    stream = await client.post("/a", headers=TEXT, content=b"x" * 6000)
    path = await client.put("/" + "x" * 41, headers=TEXT)
    await client.put("/b")
    await client.put("/c")
    streams = await client.put("/d")

    answers = {
        answer.json()["error"]["message"].partition("durable.")[2].partition(" ")[0]
        or "server.max_body_bytes": answer.status_code
        for answer in (body, stream, path, streams)
    }
    assert answers == {
        "server.max_body_bytes": 413,
        "max_stream_bytes": 413,
        "max_path_bytes": 414,
        "max_streams": 507,
    }
    assert "server.max_body_bytes = 6000" in body.json()["error"]["message"]
    assert len((await client.head("/a")).headers["stream-next-offset"]) == 25


async def test_a_compressed_body_is_not_stored_as_it_is(client: httpx.AsyncClient) -> None:
    await client.put("/a", headers=TEXT)

    answer = await client.post("/a", headers={**TEXT, "content-encoding": "gzip"}, content=b"x")

    assert answer.status_code == 415


async def test_head_tells_the_properties_and_leaves_idle_time_running(
    client: httpx.AsyncClient, stand: Stand
) -> None:
    await client.put("/a", headers={**TEXT, "stream-ttl": "5"})
    await client.put("/b", headers={"stream-expires-at": "1970-01-01T01:00:09+01:00"})
    stand.now_ns = 4 * SECOND

    one, other = await client.head("/a"), await client.head("/b")

    assert (one.headers["stream-ttl"], one.headers["cache-control"]) == ("5", "no-store")
    assert other.headers["stream-expires-at"] == "1970-01-01T00:00:09.000Z"
    stand.now_ns = 5 * SECOND
    assert (await client.head("/a")).status_code == 404


async def test_a_read_prolongs_idle_time(client: httpx.AsyncClient, stand: Stand) -> None:
    await client.put("/a", headers={**TEXT, "stream-ttl": "5"})
    for query in ("", "?offset=now", "?offset=-1&live=long-poll"):
        stand.now_ns += 4 * SECOND
        if "live" in query:
            await client.post("/a", headers={"stream-closed": "true"})
        assert (await client.get("/a" + query)).is_success


async def test_a_deleted_stream_is_gone(client: httpx.AsyncClient) -> None:
    await client.put("/a")

    assert (await client.delete("/a")).status_code == 204
    assert (await client.delete("/a")).status_code == 404
    assert (await client.post("/a", headers=TEXT, content=b"x")).status_code == 404


async def test_tenants_do_not_see_each_other(client: httpx.AsyncClient, stand: Stand) -> None:
    stand.tenant = "one"
    await client.put("/a", content=b"secret")
    stand.tenant = "two"

    for method in ("GET", "HEAD", "POST", "DELETE"):
        assert (await client.request(method, "/a")).status_code == 404
    assert (await client.put("/a", headers=TEXT)).status_code == 201


async def test_several_workers_refuse_and_say_why(client: httpx.AsyncClient, stand: Stand) -> None:
    stand.change(serves=lambda: False)

    answer = await client.put("/a")

    assert (answer.status_code, code(answer)) == (501, "several_workers")
    assert "server.workers = 1" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/", "/a%00b", "/a%09b", "/%C2%85"])
async def test_a_path_that_cannot_be_shown_is_refused(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.put(path)).status_code == 400


async def test_every_answer_carries_the_fields_that_protect_a_browser(
    client: httpx.AsyncClient,
) -> None:
    await client.put("/a", headers={"content-type": "text/html"}, content=b"<script>")
    answers = [
        await client.get("/a"),
        await client.head("/a"),
        await client.get("/a?offset=x"),
        await client.get("/none"),
        await client.options("/a"),
        await client.delete("/a"),
    ]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "sandbox"
        assert "access-control-allow-origin" not in answer.headers
