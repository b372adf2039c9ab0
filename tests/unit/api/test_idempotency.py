"""What is sent again under one key does not run again."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.requests import Request

from millstream.api import opening
from millstream.api.errors import RouteRefused
from millstream.api.idempotency import fingerprint, idempotency_key
from millstream.api.schemas import ChatCompletionRequest
from millstream.api.services import Services
from millstream.store.base import Claim, IdempotencyKey
from tests.unit.api.test_streams import ASKED, STREAMS, TEXT, silent, text_of
from tests.unit.scripted_engine import ScriptedEngine, answer, fail

COMPLETIONS = "/v1/completions"
KEY = {"Idempotency-Key": "k-1"}


def request(*keys: bytes) -> Request:
    headers = [(b"idempotency-key", key) for key in keys]
    return Request({"type": "http", "method": "POST", "headers": headers})


@pytest.mark.parametrize(
    "key", [b"a", b"k" * 255, b'"8e03978e-40d5-43e8-bc93-6894a57f9324"', b"~!"]
)
def test_a_key_is_taken_as_it_is_and_belongs_to_its_tenant(key: bytes) -> None:
    assert idempotency_key(request(key), "t") == IdempotencyKey("t", key.decode())


def test_without_the_header_there_is_none() -> None:
    assert idempotency_key(request(), "t") is None


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ([b""], "visible ASCII"),
        ([b"a b"], "visible ASCII"),
        ([b"a\x7f"], "visible ASCII"),
        (["ключ".encode()], "visible ASCII"),
        ([b"k" * 256], "256 characters, at most 255"),
        ([b"a", b"a"], "sent 2 times"),
    ],
)
def test_a_malformed_key_is_refused_with_its_limit(keys: list[bytes], problem: str) -> None:
    with pytest.raises(RouteRefused, match=problem) as refused:
        idempotency_key(request(*keys), "t")
    assert refused.value.status == 400
    assert refused.value.failure.param == "Idempotency-Key"


def body(**fields: object) -> ChatCompletionRequest:
    messages = [{"role": "user", "content": "Hi"}]
    return ChatCompletionRequest.model_validate({"model": "m", "messages": messages, **fields})


def test_the_fingerprint_is_of_what_is_asked_and_not_of_how_it_is_written() -> None:
    first = fingerprint("/a", body(seed=1, user="u", temperature=0))
    assert fingerprint("/a", body(temperature=0.0, user="u", seed=1, top_p=None)) == first
    assert len(first) == 64
    others = [
        fingerprint("/b", body(seed=1, user="u", temperature=0)),
        fingerprint("/a", body(seed=2, user="u", temperature=0)),
        fingerprint("/a", body(seed=1, user="v", temperature=0)),
        fingerprint("/a", body(seed=1, user="u", temperature=0, stream=True)),
    ]
    assert len({first, *others}) == 5


# --- over the whole app -----------------------------------------------------------------------


async def test_two_at_the_same_instant_make_one_generation(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    # mastodon#37879, grape-idempotency#10
    answers = await asyncio.gather(
        *(client.post(STREAMS, json=ASKED, headers=KEY) for _ in range(5))
    )
    assert [one.status_code for one in answers] == [200] * 5
    assert {text_of(one.text) for one in answers} == {TEXT}
    assert len({one.headers["x-stream-id"] for one in answers}) == 1
    assert sorted(one.headers.get("idempotent-replayed", "") for one in answers) == [
        "", "true", "true", "true", "true",
    ]  # fmt: skip
    assert len(engine.submitted) == 1


async def test_a_whole_answer_comes_again_whole(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    first, second = await asyncio.gather(
        *(client.post(COMPLETIONS, json=ASKED, headers=KEY) for _ in range(2))
    )
    third = await client.post(COMPLETIONS, json=ASKED, headers=KEY)
    assert first.json() == second.json() == third.json()
    assert first.json()["choices"][0]["text"] == TEXT
    assert third.headers["idempotent-replayed"] == "true"
    assert len(engine.submitted) == 1


async def test_a_failure_comes_again_as_it_was(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = fail
    first = await client.post(COMPLETIONS, json=ASKED, headers=KEY)
    again = await client.post(COMPLETIONS, json=ASKED, headers=KEY)
    assert first.status_code == again.status_code == 502
    assert first.json() == again.json()
    assert len(engine.submitted) == 1


async def test_another_body_or_route_under_the_key_is_a_422(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    await client.post(COMPLETIONS, json=ASKED, headers=KEY)
    others: list[tuple[str, dict[str, object]]] = [
        (COMPLETIONS, {"seed": 1}),
        (STREAMS, {}),
        (COMPLETIONS, {"stream": True}),
    ]
    for path, fields in others:
        refused = await client.post(path, json={**ASKED, **fields}, headers=KEY)
        assert refused.status_code == 422
        assert refused.json()["error"]["code"] == "idempotency_key_reused"
    assert len(engine.submitted) == 1


async def test_a_refusal_gives_the_key_back(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    limited = {**ASKED, "model": "limited", "max_tokens": 20}
    engine.script = silent
    held = await client.post(STREAMS, json={**limited, "stream": False})
    refused = await client.post(COMPLETIONS, json=limited, headers=KEY)
    assert refused.status_code == 429
    engine.ready = False
    away = await client.post(COMPLETIONS, json=ASKED, headers=KEY)
    assert away.status_code == 503
    engine.ready, engine.script = True, answer
    await client.post(f"{STREAMS}/{held.json()['id']}/cancel")
    taken = await client.post(COMPLETIONS, json={**ASKED, "seed": 5}, headers=KEY)
    assert taken.status_code == 200
    assert "idempotent-replayed" not in taken.headers


async def test_a_bad_request_takes_no_key(client: httpx.AsyncClient) -> None:
    wrong = await client.post(COMPLETIONS, json={**ASKED, "max_tokens": 63}, headers=KEY)
    assert wrong.status_code == 400
    right = await client.post(COMPLETIONS, json=ASKED, headers=KEY)
    assert right.status_code == 200
    assert "idempotent-replayed" not in right.headers


async def test_a_malformed_key_stops_the_request(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    refused = await client.post(COMPLETIONS, json=ASKED, headers={"Idempotency-Key": "a b"})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "invalid_idempotency_key"
    assert engine.submitted == []


async def test_a_stream_that_runs_alone_is_begun_once(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    sent = {**ASKED, "stream": False}
    first, second = [await client.post(STREAMS, json=sent, headers=KEY) for _ in range(2)]
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json() == second.json()
    assert len(engine.submitted) == 1


async def test_a_key_whose_stream_never_came_is_taken_over(
    client: httpx.AsyncClient, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its worker died between claim and stream.
    monkeypatch.setattr(opening, "PATIENCE_SECONDS", 0.05)
    key, claim = IdempotencyKey("default", "k-1"), Claim("gone", "")
    sent = ChatCompletionRequest.model_validate(
        {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    )
    path = "/v1/chat/completions"
    claim = Claim("gone", fingerprint(path, sent))
    app = client._transport.app  # type: ignore[attr-defined]
    services: Services = app.state.services
    assert await services.store.claim(key, claim, ttl_seconds=60) is None
    answered = await client.post(path, json=sent.model_dump(exclude_unset=True), headers=KEY)
    assert answered.status_code == 200
    assert len(engine.submitted) == 1
