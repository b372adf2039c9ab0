"""What is sent again under a key needs no engine, and goes on after the cursor that it brings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from millstream.api.services import Services
from millstream.config import Settings, load_settings
from millstream.errors import StoreUnavailable
from millstream.store.base import Claim, IdempotencyKey
from tests.unit.api.test_resume import LAST, ids, many
from tests.unit.api.test_streams import ASKED, STREAMS
from tests.unit.conftest import CONFIG
from tests.unit.scripted_engine import ScriptedEngine, Words

KEY = {"Idempotency-Key": "k-1"}
RESUMABLE: dict[str, object] = {"stream": True, "stream_options": {"resumable": True}}
MESSAGES = [{"role": "user", "content": "Hi"}]
CHAT: dict[str, object] = {"model": "m", "messages": MESSAGES}
RESPONSE: dict[str, object] = {"model": "m", "input": "Hi"}
POSTS = [
    pytest.param("/v1/chat/completions", CHAT, id="chat"),
    pytest.param("/v1/chat/completions", CHAT | RESUMABLE, id="chat, streamed"),
    pytest.param("/v1/completions", ASKED, id="completion"),
    pytest.param(STREAMS, ASKED, id="native"),
    pytest.param(STREAMS, {**ASKED, "stream": False}, id="native, left alone"),
    pytest.param("/v1/responses", RESPONSE, id="response"),
    pytest.param("/v1/responses", {**RESPONSE, "background": True}, id="in the background"),
    pytest.param("/v1/responses", {**RESPONSE, "stream": True}, id="response, streamed"),
]
CURSORED = [
    pytest.param("/v1/chat/completions", CHAT | RESUMABLE, id="chat"),
    pytest.param("/v1/completions", ASKED | RESUMABLE, id="completion"),
    pytest.param(STREAMS, ASKED, id="native"),
    pytest.param("/v1/responses", RESPONSE | RESUMABLE, id="response"),
]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "millstream.toml"
    path.write_text(f"{CONFIG}\n[streams]\nmax_records = 16\n")
    return load_settings(path, environ={})


@pytest.fixture
def services(client: httpx.AsyncClient) -> Services:
    app = client._transport.app  # type: ignore[attr-defined]
    found: Services = app.state.services
    return found


def after(cursor: str) -> dict[str, str]:
    return {**KEY, "Last-Event-ID": cursor}


@pytest.mark.parametrize(("path", "body"), POSTS)
async def test_a_replay_needs_no_engine_and_costs_no_tokenisation(
    client: httpx.AsyncClient,
    engine: ScriptedEngine,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: Mapping[str, object],
) -> None:
    def encode(_words: Words, text: str) -> list[int]:
        raise AssertionError(text)

    first = await client.post(path, json=body, headers=KEY)
    stream = await client.get(f"{STREAMS}/{first.headers['x-stream-id']}")
    engine.ready, engine.model_info = False, None
    monkeypatch.setattr(Words, "encode", encode)
    again = await client.post(path, json=body, headers=KEY)
    assert again.status_code == first.status_code
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["x-stream-id"] == first.headers["x-stream-id"]
    assert "Paris" in stream.text
    if body.get("background") is None:
        assert [line for line in again.text.split("\n") if "retry: " not in line] == [
            line for line in first.text.split("\n") if "retry: " not in line
        ]
    other = await client.post(path, json={**body, "temperature": 0.5}, headers=KEY)
    assert other.status_code == 422
    assert other.json()["error"]["code"] == "idempotency_key_reused"
    assert len(engine.submitted) == 1


@pytest.mark.parametrize(("path", "body"), POSTS)
async def test_a_server_that_leaves_still_replays(
    client: httpx.AsyncClient, services: Services, path: str, body: Mapping[str, object]
) -> None:
    first = await client.post(path, json=body, headers=KEY)
    services.drain.begin()
    again = await client.post(path, json=body, headers=KEY)
    assert again.status_code == first.status_code
    assert again.headers["idempotent-replayed"] == "true"
    new = await client.post(path, json=body, headers={"Idempotency-Key": "new"})
    assert new.status_code == 503


async def test_where_the_look_up_finds_nothing_yet_the_claim_decides(
    client: httpx.AsyncClient,
    engine: ScriptedEngine,
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def claimed(_key: IdempotencyKey) -> Claim | None:
        return None  # Two at the same instant both find nothing.

    first = await client.post(STREAMS, json=ASKED, headers=KEY)
    monkeypatch.setattr(services.store, "claimed", claimed)
    second = await client.post(STREAMS, json=ASKED, headers=KEY)
    assert second.headers["x-stream-id"] == first.headers["x-stream-id"]
    assert second.headers["idempotent-replayed"] == "true"
    assert len(engine.submitted) == 1


async def test_a_key_that_cannot_be_looked_up_is_a_503_and_begins_nothing(
    client: httpx.AsyncClient,
    engine: ScriptedEngine,
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def claimed(_key: IdempotencyKey) -> Claim | None:
        raise StoreUnavailable("The stream store does not answer.")

    monkeypatch.setattr(services.store, "claimed", claimed)
    refused = await client.post(STREAMS, json=ASKED, headers=KEY)
    assert refused.status_code == 503
    assert "store" in refused.json()["error"]["message"]
    assert engine.submitted == []


# --- with a cursor ----------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "body"), CURSORED)
async def test_a_replay_goes_on_after_its_cursor_as_a_reader_does(
    client: httpx.AsyncClient, path: str, body: Mapping[str, object]
) -> None:
    first = await client.post(path, json=body, headers=KEY)
    url = f"{STREAMS}/{first.headers['x-stream-id']}"
    cursors = ids(first.text)
    assert len(set(cursors)) >= 4
    for cursor in cursors:
        again = await client.post(path, json=body, headers=after(cursor))
        read = await client.get(url, headers={"Last-Event-ID": cursor})
        assert again.status_code == read.status_code
        assert ids(again.text) == ids(read.text)
        assert cursor not in ids(again.text)
        assert again.headers["idempotent-replayed"] == "true"
        rest = again.text.partition("data: ")[2]
        assert first.text.endswith(rest)
    last = await client.post(path, json=body, headers=after(f"1-{LAST}"))
    assert (last.status_code, last.content) == (204, b"")
    assert last.headers["x-stream-id"] == first.headers["x-stream-id"]


async def test_lines_of_json_go_on_too(client: httpx.AsyncClient) -> None:
    lines = {"accept": "application/x-ndjson"}
    first = await client.post(STREAMS, json=ASKED, headers=KEY | lines)
    again = await client.post(STREAMS, json=ASKED, headers=after("1-4") | lines)
    assert again.text.splitlines() == first.text.splitlines()[4:]


@pytest.mark.parametrize("cursor", ["junk", "17", "0-1", "1-7", "2-1"])
async def test_a_cursor_that_no_event_has_is_a_400(client: httpx.AsyncClient, cursor: str) -> None:
    await client.post(STREAMS, json=ASKED, headers=KEY)
    refused = await client.post(STREAMS, json=ASKED, headers=after(cursor))
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "invalid_cursor"
    assert refused.json()["error"]["param"] == "Last-Event-ID"


async def test_a_cursor_before_what_is_kept_is_a_410_that_says_where_the_text_is(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = many
    first = await client.post(STREAMS, json={**ASKED, "max_tokens": 20}, headers=KEY)
    gone = await client.post(STREAMS, json={**ASKED, "max_tokens": 20}, headers=after("1-2"))
    assert gone.status_code == 410
    error = gone.json()["error"]
    assert (error["code"], error["param"]) == ("stream_trimmed", "Last-Event-ID")
    assert f"{STREAMS}/{first.headers['x-stream-id']}?on_gap=snapshot" in error["message"]


@pytest.mark.parametrize("cursor", ["1-4", "junk", "1-999"])
async def test_the_cursor_of_a_first_request_is_ignored(
    client: httpx.AsyncClient, cursor: str
) -> None:
    for headers in ({"Last-Event-ID": cursor}, after(cursor)):
        first = await client.post(STREAMS, json=ASKED, headers=headers)
        assert first.status_code == 200
        assert ids(first.text) == [f"1-{seq}" for seq in range(1, LAST + 1)]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        pytest.param(STREAMS, {"resumable": False}, id="without ids"),
        pytest.param(STREAMS, {"stream": False}, id="left alone"),
        pytest.param("/v1/completions", {}, id="whole"),
        pytest.param("/v1/completions", {"stream": True}, id="plain stream"),
    ],
)
async def test_an_answer_without_ids_comes_again_whole_whatever_the_cursor(
    client: httpx.AsyncClient, path: str, fields: Mapping[str, object]
) -> None:
    body = {**ASKED, **fields}
    first = await client.post(path, json=body, headers=KEY)
    for cursor in ("1-4", "junk"):
        again = await client.post(path, json=body, headers=after(cursor))
        assert again.status_code == first.status_code
        assert again.text == first.text
        assert again.headers["idempotent-replayed"] == "true"


async def test_an_empty_cursor_is_none(client: httpx.AsyncClient) -> None:
    await client.post(STREAMS, json=ASKED, headers=KEY)
    again = await client.post(STREAMS, json=ASKED, headers=after(""))
    assert ids(again.text)[0] == "1-1"
