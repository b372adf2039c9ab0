"""Connections whose credential expires while they are open, over the whole app."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns, time
from types import SimpleNamespace
from typing import Any, Literal

import httpx
import pytest
from starlette.requests import Request
from starlette.types import ASGIApp, Message

from millstream.api.expiry import expires_ns
from millstream.config import Settings, load_settings
from millstream.identity.principal import ANONYMOUS, Principal
from tests.unit.conftest import CONFIG
from tests.unit.scripted_engine import ScriptedEngine
from tests.unit.streams.parts import SECOND, ManualEngine
from tests.waiting import HANG_SECONDS, until_true

CHAT, STREAMS, RESPONSES = "/v1/chat/completions", "/v1/streams", "/v1/responses"
PROMPT = {"model": "m", "messages": [{"role": "user", "content": "the capital"}]}
JWT = '{ algorithms = ["RS256"], jwks_file = "keys.json", leeway_seconds = 7 }'
TENANTS = '[tenants.strict]\non_expiry = "cut"\n\n[tenants.lenient]\n'
ONE_AT_A_TIME = """
[models.q]
routes = [{ engine = "local" }]
limits = { concurrency = 1, queue = { deadline_seconds = 600 } }
"""
LIFE_SECONDS = 1000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "millstream.toml"
    path.write_text(f"{CONFIG}\n{TENANTS}\n{ONE_AT_A_TIME}")
    return load_settings(path, environ={})


def begin(engine: ManualEngine, request: int) -> None:
    """One token, and no more for now."""
    engine.token(request, "Paris")


def principal(life_seconds: float | None = LIFE_SECONDS) -> Principal:
    expires_at = None if life_seconds is None else time() + life_seconds
    return Principal("jwt", "ann", expires_at=expires_at)


@dataclass
class Answer:
    """What the app has sent so far."""

    messages: list[Message] = field(default_factory=list)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def text(self) -> str:
        return b"".join(message.get("body", b"") for message in self.messages).decode()

    @property
    def frames(self) -> list[Any]:
        data = [line[6:] for line in self.text.splitlines() if line.startswith("data: ")]
        return [json.loads(one) for one in data]

    @property
    def is_cut(self) -> bool:
        return self.messages[-1].get("more_body", False) is True


@dataclass
class Asking:
    """Requests of one tenant, and the sweep that looks at the time."""

    app: Any
    engine: ScriptedEngine

    @asynccontextmanager
    async def request(
        self,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        tenant: str = "strict",
        who: Principal | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[tuple[Answer, asyncio.Task[None]]]:
        """The request under way; its client stays to the end."""
        answer, stays = Answer(), asyncio.Event()
        state: dict[str, object] = {"tenant": tenant, "principal": who or principal()}
        task = asyncio.ensure_future(self._call(path, body, answer, stays, state, headers or {}))
        try:
            yield answer, task
        finally:
            stays.set()
            await asyncio.wait_for(task, HANG_SECONDS)

    async def _call(
        self,
        path: str,
        body: Mapping[str, object] | None,
        answer: Answer,
        stays: asyncio.Event,
        state: dict[str, object],
        headers: Mapping[str, str],
    ) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        received: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> Message:
            if received:
                return received.pop()
            await stays.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            answer.messages.append(message)

        raw = [(b"content-type", b"application/json")]
        raw += [(name.encode(), value.encode()) for name, value in headers.items()]
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET" if body is None else "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": raw,
            "server": ("test", 80),
            "client": ("test", 1),
            "state": state,
        }
        app: ASGIApp = self.app
        await app(scope, receive, send)

    async def read(self) -> None:
        """Wait until the reader of the newest stream has all that there is."""
        await until_true(lambda: any(log.waiting for log in self.engine.logs.values()))

    def sweep(self, seconds: float) -> None:
        """Look at every connection, so much later than now."""
        services = self.app.state.services
        services.deliveries.sweep(monotonic_ns() + int(seconds * SECOND))

    @property
    def ended(self) -> list[str | None]:
        return [log.outcome for log in self.engine.logs.values()]


@pytest.fixture
async def asking(client: httpx.AsyncClient, engine: ScriptedEngine) -> Asking:
    engine.script = begin
    return Asking(client._transport.app, engine)  # type: ignore[attr-defined]


async def test_a_plain_stream_ends_cancelled_with_its_credential(asking: Asking) -> None:
    async with asking.request(CHAT, {**PROMPT, "stream": True}) as (answer, task):
        await asking.read()
        asking.sweep(LIFE_SECONDS - 10)
        assert asking.ended == [None]
        asking.sweep(LIFE_SECONDS + 10)
        await task
    assert asking.ended == ["cancelled"]
    error = answer.frames[-1]["error"]
    assert (error["code"], error["type"]) == ("credential_expired", "invalid_request_error")
    assert answer.is_cut
    assert "[DONE]" not in answer.text


async def test_a_native_stream_says_so_and_how_it_ended(asking: Asking) -> None:
    body = {**PROMPT, "resumable": False, "metadata": True}
    async with asking.request(STREAMS, body) as (answer, task):
        await asking.read()
        asking.sweep(LIFE_SECONDS + 10)
        await task
    error, done = answer.frames[-2:]
    assert error["error"]["code"] == "credential_expired"
    assert (done["outcome"], done["settled"]["partial"]) == ("cancelled", True)
    assert not answer.is_cut


async def test_a_resumable_stream_goes_on_for_a_fresh_credential(asking: Asking) -> None:
    body = {**PROMPT, "stream": True, "stream_options": {"resumable": True}}
    async with asking.request(CHAT, body) as (answer, task):
        await asking.read()
        asking.sweep(LIFE_SECONDS + 10)
        await task
    assert answer.frames[-1]["error"]["code"] == "credential_expired"
    assert answer.is_cut
    assert asking.ended == [None]
    # The last id is that of the token: what was no record moves no cursor.
    assert answer.text.count("id: ") == 1
    url = f"{STREAMS}/{answer.headers['x-stream-id']}?after=1-1"
    fresh = principal(3 * LIFE_SECONDS)
    async with asking.request(url, who=fresh) as (resumed, task):
        await asking.read()
        asking.sweep(2 * LIFE_SECONDS)
        asking.engine.finish(1, tokens=1)
        await task
    assert resumed.text.endswith("data: [DONE]\n\n")


async def test_a_resumed_read_is_cut_too_in_its_own_dialect(asking: Asking) -> None:
    body = {**PROMPT, "stream": False}
    async with asking.request(STREAMS, body) as (begun, task):
        await task
    url = f"{STREAMS}/{json.loads(begun.text)['id']}"
    async with asking.request(url, headers={"accept": "application/jsonl"}) as (answer, task):
        await asking.read()
        asking.sweep(LIFE_SECONDS + 10)
        await task
    last = json.loads(answer.text.splitlines()[-1])
    assert (last["event"], last["error"]["code"]) == ("error", "credential_expired")
    assert not answer.is_cut
    assert asking.ended == [None]


async def test_the_events_of_a_response_are_cut_without_a_number_to_come_back_after(
    asking: Asking,
) -> None:
    body = {"model": "m", "input": "the capital", "background": True}
    async with asking.request(RESPONSES, body) as (begun, task):
        await task
    url = f"{RESPONSES}/{json.loads(begun.text)['id']}?stream=true"
    async with asking.request(url) as (answer, task):
        await asking.read()
        asking.sweep(LIFE_SECONDS + 10)
        await task
    last = answer.frames[-1]
    assert (last["type"], last["code"]) == ("error", "credential_expired")
    assert "sequence_number" not in last
    assert asking.ended == [None]


async def test_an_answer_in_one_piece_becomes_a_401(asking: Asking) -> None:
    async with asking.request(CHAT, PROMPT) as (answer, task):
        await asking.read()
        asking.sweep(LIFE_SECONDS + 10)
        await task
    assert answer.status == 401
    assert json.loads(answer.text)["error"]["code"] == "credential_expired"
    assert answer.headers["www-authenticate"].startswith('Bearer realm="millstream"')
    assert asking.ended == ["cancelled"]
    assert answer.headers.get("retry-after") is None


@pytest.mark.parametrize("streamed", [True, False])
async def test_who_waits_for_a_limit_with_a_credential_that_expires_gets_a_401_and_no_place(
    asking: Asking, streamed: bool
) -> None:
    admission = asking.app.state.services.orchestrator.admission
    body, key = {**PROMPT, "model": "q", "stream": streamed}, {"idempotency-key": "k"}
    async with asking.request(CHAT, {**body, "stream": True}, tenant="lenient"):
        await asking.read()
        async with asking.request(CHAT, body, headers=key) as (answer, task):
            await until_true(lambda: admission.waiting == 1)
            asking.sweep(LIFE_SECONDS - 10)
            assert admission.waiting == 1
            asking.sweep(LIFE_SECONDS + 10)
            asking.sweep(LIFE_SECONDS + 10)
            await task
        assert answer.status == 401
        assert json.loads(answer.text)["error"]["code"] == "credential_expired"
        assert answer.headers["www-authenticate"].startswith('Bearer realm="millstream"')
        assert admission.waiting == 0
        # Its key is free for a fresh credential.
        async with asking.request(CHAT, body, headers=key):
            await until_true(lambda: admission.waiting == 1)
    assert len(asking.ended) == 1


async def test_a_keyed_answer_can_be_had_with_a_fresh_credential(asking: Asking) -> None:
    key = {"idempotency-key": "k"}
    async with asking.request(CHAT, PROMPT, headers=key) as (answer, task):
        await asking.read()
        asking.sweep(LIFE_SECONDS + 10)
        await task
    assert (answer.status, asking.ended) == (401, [None])
    asking.engine.finish(1, tokens=1)
    async with asking.request(CHAT, PROMPT, headers=key) as (again, task):
        await task
    assert again.status == 200
    assert again.headers["idempotent-replayed"] == "true"
    assert "x-tokens-charged" not in again.headers


@pytest.mark.parametrize(
    ("tenant", "who"),
    [("lenient", principal()), ("unknown", principal()), ("strict", ANONYMOUS)],
)
@pytest.mark.parametrize("streamed", [True, False])
async def test_others_go_on_to_the_end(
    asking: Asking, tenant: str, who: Principal, streamed: bool
) -> None:
    body = {**PROMPT, "stream": streamed}
    async with asking.request(CHAT, body, tenant=tenant, who=who) as (answer, task):
        await asking.read()
        asking.sweep(100 * LIFE_SECONDS)
        asking.engine.finish(1, tokens=1)
        await task
    assert (answer.status, asking.ended) == (200, ["completed"])
    assert "credential_expired" not in answer.text


@pytest.mark.parametrize("streamed", [True, False])
async def test_nothing_is_watched_any_more_after_the_end(asking: Asking, streamed: bool) -> None:
    deliveries = asking.app.state.services.deliveries
    async with asking.request(CHAT, {**PROMPT, "stream": streamed}) as (_, task):
        await asking.read()
        assert len(deliveries._expiring) == 1
        asking.engine.finish(1, tokens=1)
        await task
    assert deliveries._expiring == {}


def mapped(
    tmp_path: Path,
    *,
    expires_at: float | None,
    now: float,
    jwt: bool = False,
    kind: Literal["jwt", "key"] = "jwt",
) -> int | None:
    path = tmp_path / "millstream.toml"
    auth = f'[auth]\nmode = "required"\njwt = {JWT}\n\n' if jwt else ""
    path.write_text(f"{CONFIG}\n{auth}{TENANTS}")
    services: Any = SimpleNamespace(
        settings=load_settings(path, environ={}),
        clock=lambda: 5 * SECOND,
        wall_clock=lambda: int(now * SECOND),
    )
    state = {"tenant": "strict", "principal": Principal(kind, "ann", expires_at=expires_at)}
    return expires_ns(Request({"type": "http", "headers": [], "state": state}), services)


def test_the_wall_clock_is_mapped_to_the_monotonic_one(tmp_path: Path) -> None:
    assert mapped(tmp_path, expires_at=1060, now=1000) == 65 * SECOND


def test_a_token_is_good_for_as_long_as_it_would_be_let_in(tmp_path: Path) -> None:
    assert mapped(tmp_path, expires_at=1060, now=1000, jwt=True) == 72 * SECOND


def test_a_key_ends_to_the_second_as_it_does_for_a_new_request(tmp_path: Path) -> None:
    assert mapped(tmp_path, expires_at=1060, now=1000, jwt=True, kind="key") == 65 * SECOND


def test_a_credential_that_has_expired_already_is_cut_at_once(tmp_path: Path) -> None:
    assert mapped(tmp_path, expires_at=900, now=1000) == 5 * SECOND


def test_a_credential_without_an_end_is_never_cut(tmp_path: Path) -> None:
    assert mapped(tmp_path, expires_at=None, now=1000) is None
