"""Tokens that expire while a real server streams from the real model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import jwt
import pytest

from millstream.client import Client, RequestRefused
from tests.e2e.frames import frames
from tests.e2e.http1 import Connection
from tests.e2e.servers import ENGINE, Server, millstream_command, serving
from tests.e2e.test_resume import CHAT, STREAMS, asked, resumable
from tests.ports import free_port

SECRET = "0123456789abcdef0123456789abcdef"
AUTH = """
[auth]
mode = "required"
jwt = { algorithms = ["HS256"], secret_env = "TEST_JWT_SECRET", leeway_seconds = 0 }
roles.any = ["*"]

[tenants.strict]
on_expiry = "cut"

[tenants.lenient]
"""
ONE_AT_A_TIME = """
[models.one-after-another]
routes = [{ engine = "local" }]
limits = { concurrency = 1, queue = { deadline_seconds = 60 } }
"""
GRACE = """
[streams]
detach_grace_seconds = 60
"""
# Long enough for a first token on a busy machine.
LIFE_SECONDS = 10
# Longer than any of these tokens lives, on a fast one.
LONG = {"max_tokens": 7500}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that lets nobody in without a token."""
    folder, port = tmp_path_factory.mktemp("guarded"), free_port()
    config = folder / "millstream.toml"
    config.write_text(ENGINE + ONE_AT_A_TIME + GRACE + AUTH)
    environment = {"TEST_JWT_SECRET": SECRET}
    command = millstream_command(port, config)
    with serving(command, port=port, folder=folder, environment=environment) as server:
        yield server


def token(tenant: str, life_seconds: float) -> str:
    expires_at = int(time.time() + life_seconds)
    claims = {"sub": "ann", "tenant": tenant, "role": "any", "exp": expires_at}
    return jwt.encode(claims, SECRET, algorithm="HS256")


def authorized() -> dict[str, str]:
    return {"Authorization": f"Bearer {token('strict', 600)}"}


def bearer(tenant: str, life_seconds: float = 600) -> str:
    return f"Authorization: Bearer {token(tenant, life_seconds)}"


def test_a_plain_stream_is_cut_when_its_token_expires(guarded: Server) -> None:
    with Connection(guarded.port) as client:
        client.post(CHAT, asked(stream=True, **LONG), bearer("strict", LIFE_SECONDS))
        assert client.read_head() == 200
        client.read_all()
        assert not client.complete
        assert frames(client.body)[-1].data["error"]["code"] == "credential_expired"


def test_a_resumable_stream_goes_on_for_a_new_token(guarded: Server) -> None:
    with Connection(guarded.port) as client:
        client.post(CHAT, resumable(**LONG), bearer("strict", LIFE_SECONDS))
        assert client.read_head() == 200
        path = f"{STREAMS}/{client.header('x-stream-id')}"
        client.read_all()
        assert not client.complete
        *before, error = frames(client.body)
    assert error.data["error"]["code"] == "credential_expired"
    assert before
    with Connection(guarded.port) as client:
        client.get(path, bearer("strict"), f"Last-Event-ID: {before[-1].id}")
        assert client.read_head() == 200
        client.read_until(b'"content":"')
        assert frames(client.body)[0].seq == before[-1].seq + 1
    cancelled = httpx.post(f"{guarded.url}{path}/cancel", headers=authorized())
    assert cancelled.json()["outcome"] == "cancelled"


def test_an_answer_in_one_piece_becomes_a_401(guarded: Server) -> None:
    headers = {"Authorization": bearer("strict", LIFE_SECONDS).partition(": ")[2]}
    answer = httpx.post(f"{guarded.url}{CHAT}", json=asked(**LONG), headers=headers, timeout=60)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "credential_expired"
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_who_waits_for_a_limit_when_its_token_expires_waits_no_longer(guarded: Server) -> None:
    body = asked(model="one-after-another", stream=True, **LONG)
    headers = {"Authorization": f"Bearer {token('strict', LIFE_SECONDS)}"}
    with Connection(guarded.port) as holder:
        holder.post(CHAT, body, bearer("lenient"))
        holder.read_until(b'"content":"')
        answer = httpx.post(f"{guarded.url}{CHAT}", json=body, headers=headers, timeout=60)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "credential_expired"


def test_our_client_says_that_the_server_no_longer_lets_it_in(guarded: Server) -> None:
    parameters: dict[str, Any] = asked(**LONG)
    with Client(guarded.url, api_key=token("strict", LIFE_SECONDS)) as client:
        stream = client.stream(**parameters)
        with pytest.raises(RequestRefused) as refused:
            list(stream)
        assert refused.value.status == 401
        assert stream.text
    # It goes on for whoever comes with a new one.
    with Client(guarded.url, api_key=token("strict", 600)) as client:
        url = f"{guarded.url}{STREAMS}/{stream.id}"
        again = client.follow(str(stream.id), after=stream.last_event_id)
        assert next(iter(again))
        httpx.post(f"{url}/cancel", headers=authorized())


def test_another_tenants_stream_goes_on_to_its_end(guarded: Server) -> None:
    with Connection(guarded.port) as client:
        client.post(CHAT, asked(stream=True, max_tokens=600), bearer("lenient", 5))
        assert client.read_head() == 200
        client.read_all()
        assert client.complete
        assert b"data: [DONE]" in client.body
