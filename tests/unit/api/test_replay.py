"""What is sent again under a key needs no engine."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest

from millstream.api.services import Services
from millstream.errors import StoreUnavailable
from millstream.store.base import Claim, IdempotencyKey
from tests.unit.api.test_streams import ASKED, STREAMS
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


@pytest.fixture
def services(client: httpx.AsyncClient) -> Services:
    app = client._transport.app  # type: ignore[attr-defined]
    found: Services = app.state.services
    return found


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
