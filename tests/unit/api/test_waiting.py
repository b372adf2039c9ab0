"""Requests that wait for a limit: what their clients may do meanwhile, and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from millstream import app as assembly
from millstream.admission import Demand
from millstream.api import opening
from millstream.api.services import Services
from millstream.config import Settings, load_settings
from tests.unit.api.calls import Call, settle
from tests.unit.scripted_engine import ScriptedEngine, answer
from tests.unit.streams.parts import ManualEngine
from tests.waiting import HANG_SECONDS

CONFIG = """
[models.m]
routes = [{ engine = "local" }]
max_tokens = 20

[models.q]
routes = [{ engine = "local" }]
max_tokens = 20
[models.q.limits]
requests = { per_minute = 60, burst = 50 }
tokens = { limit = 1000, window_ms = 60000 }
concurrency = 1
bytes_in_flight = { limit = 1048576, per_stream = 8192 }
queue = { deadline_seconds = 30 }

[models.few]
routes = [{ engine = "local" }]
limits = { tokens = { limit = 12, window_ms = 60000 } }

[tenants.default]
priority = 2
"""

MESSAGES = [{"role": "user", "content": "the capital"}]
ROUTES: dict[str, tuple[str, dict[str, object]]] = {
    "chat": ("/v1/chat/completions", {"messages": MESSAGES}),
    "chat streamed": ("/v1/chat/completions", {"messages": MESSAGES, "stream": True}),
    "completions": ("/v1/completions", {"prompt": "the capital"}),
    "completions streamed": ("/v1/completions", {"prompt": "the capital", "stream": True}),
    "responses": ("/v1/responses", {"input": "the capital"}),
    "responses streamed": ("/v1/responses", {"input": "the capital", "stream": True}),
    "native": ("/v1/streams", {"prompt": "the capital"}),
    "native background": ("/v1/streams", {"prompt": "the capital", "stream": False}),
}
everywhere = pytest.mark.parametrize("route", ROUTES)


def silent(_engine: ManualEngine, _request: int) -> None:
    """Take the request and say nothing."""


class Server:
    """An app, and clients of it."""

    def __init__(self, app: FastAPI, engine: ScriptedEngine) -> None:
        self.app, self.engine = app, engine
        self.services: Services = app.state.services
        self.admission = self.services.orchestrator.admission
        self.calls: list[Call] = []

    async def call(
        self, route: str = "chat", headers: dict[str, str] | None = None, **fields: object
    ) -> Call:
        path, body = ROUTES[route]
        call = Call(self.app, path, {"model": "q", **body, **fields}, headers)
        self.calls.append(call)
        await settle()
        return call

    async def holding(self) -> int:
        """A stream that goes on until `finish` of this request: whoever else comes has to wait."""
        script, self.engine.script = self.engine.script, silent
        await self.call("chat streamed")
        self.engine.script = script
        return max(self.engine.callbacks)

    async def finish(self, request: int) -> None:
        self.engine.finish(request, tokens=0)
        await settle()

    async def left(self) -> tuple[int, ...]:
        """Requests, tokens, places and KiB that are left."""
        snapshot = await self.admission.peek("default", "q")
        meters = (snapshot.requests, snapshot.tokens, snapshot.concurrency, snapshot.bytes)
        return tuple(meter.remaining for meter in meters if meter is not None)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "queue.toml"
    path.write_text("[engines.local]\nmax_batch = 3\n" + CONFIG)
    return load_settings(path, environ={})


@pytest.fixture
async def server(engine: ScriptedEngine, settings: Settings) -> AsyncIterator[Server]:
    app = assembly.create_app(settings)
    async with app.router.lifespan_context(app):
        made = Server(app, engine)
        yield made
        for call in made.calls:
            await call.leave()
        await asyncio.gather(*(call.task for call in made.calls))


@everywhere
async def test_a_request_waits_and_is_answered_when_there_is_room(
    server: Server, route: str
) -> None:
    held = await server.holding()
    call = await server.call(route)
    assert (call.status, server.admission.waiting) == (None, 1)
    await server.finish(held)
    assert call.status in (200, 202)
    assert server.admission.waiting == 0
    assert len(server.engine.submitted) == 2


# litellm#31499, bifrost#7106: nobody listened before the first chunk. litellm#27955: a leaked slot.
@everywhere
async def test_a_client_that_leaves_while_it_waits_is_given_up_at_once_and_charged_nothing(
    server: Server, route: str
) -> None:
    held = await server.holding()
    was = await server.left()
    call = await server.call(route)
    await call.leave()
    assert call.task.done()
    assert (call.status, server.admission.waiting) == (499, 0)
    # All but what the time gives back.
    assert (await server.left())[1:] == was[1:]
    assert call.scope["state"]["outcome"] == "client_gone"
    await server.finish(held)
    assert len(server.engine.submitted) == 1
    assert (await server.left())[2:] == (1, 1024)


@pytest.mark.parametrize("route", ["chat streamed", "chat", "native", "responses"])
async def test_who_leaves_gives_its_idempotency_key_back(server: Server, route: str) -> None:
    held = await server.holding()
    key = {"Idempotency-Key": "k"}
    first = await server.call(route, key)
    await first.leave()
    assert first.status == 499
    await server.finish(held)
    second = await server.call(route, key)
    assert second.status == 200
    assert "idempotent-replayed" not in second.headers


# mastodon#37879: two concurrent posts with the same key generated twice.
async def test_the_same_key_waits_for_as_long_as_its_first_request_may(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "PATIENCE_SECONDS", 0.0)
    held = await server.holding()
    key = {"Idempotency-Key": "k"}
    calls = [await server.call("chat", key) for _ in range(2)]
    await asyncio.sleep(0.06)  # the second one looks every 20 ms, and gave up at the first look
    assert server.admission.waiting == 1
    await server.finish(held)
    async with asyncio.timeout(HANG_SECONDS):
        await asyncio.gather(*(call.task for call in calls))
    assert [call.status for call in calls] == [200, 200]
    assert "idempotent-replayed" in calls[1].headers
    assert len(server.engine.submitted) == 2


@everywhere
async def test_nobody_waits_for_a_server_that_leaves(server: Server, route: str) -> None:
    held = await server.holding()
    call = await server.call(route)
    server.services.drain.begin()
    server.services.orchestrator.sweep(0)
    await settle()
    assert (call.status, server.admission.waiting) == (503, 0)
    assert b"shutting down" in call.body
    await server.finish(held)
    assert len(server.engine.submitted) == 1


async def test_a_server_that_leaves_in_the_moment_of_an_admission_charges_nothing(
    server: Server,
) -> None:
    held = await server.holding()
    call = await server.call()
    server.services.drain.begin()
    await server.finish(held)
    assert call.status == 503
    assert len(server.engine.submitted) == 1
    assert (await server.left())[2:] == (1, 1024)


async def test_an_engine_that_has_gone_while_the_request_waited_costs_nothing(
    server: Server,
) -> None:
    held = await server.holding()
    call = await server.call()
    server.engine.ready = False
    await server.finish(held)
    assert call.status == 503
    assert (await server.left())[2:] == (1, 1024)


async def test_a_stream_that_had_to_wait_still_hears_its_client_leave(server: Server) -> None:
    held = await server.holding()
    server.engine.script = silent
    call = await server.call("chat streamed")
    await server.finish(held)
    assert call.status == 200
    await call.leave()
    assert call.task.done()
    assert server.engine.aborted[-1] == max(server.engine.logs)
    assert (await server.left())[2:] == (1, 1024)


def asked(engine: ScriptedEngine, number: int = -1) -> int:
    return engine.submitted[number][1].max_tokens


@pytest.mark.parametrize(
    ("headers", "fields"),
    [({"X-Adapt-Max-Tokens": "1"}, {}), ({}, {"adapt_max_tokens": True})],
    ids=["header", "body"],
)
@everywhere
async def test_a_request_takes_what_is_left_if_it_says_so(
    server: Server, route: str, headers: dict[str, str], fields: dict[str, object]
) -> None:
    await use_all_but(server, 12)
    call = await server.call(route, headers, **fields)
    assert call.status in (200, 202)
    # Prompts have two words, and so two tokens.
    assert (asked(server.engine), call.headers["x-max-tokens"]) == (10, "10")


async def test_what_fits_is_not_shortened(server: Server) -> None:
    call = await server.call(headers={"X-Adapt-Max-Tokens": "1"})
    assert (call.status, asked(server.engine)) == (200, 20)
    assert "x-max-tokens" not in call.headers


async def test_not_one_token_left_is_a_refusal_as_ever(server: Server) -> None:
    await use_all_but(server, 2)
    call = await server.call(headers={"X-Adapt-Max-Tokens": "1"})
    assert call.status == 429


@everywhere
async def test_what_would_exceed_even_an_unused_limit_may_come_again_later_if_it_adapts(
    server: Server, route: str
) -> None:
    taken = await server.admission.admit([Demand("default", "few", 10)])
    assert isinstance(taken, list)
    # Two tokens of a prompt and twenty, of which twelve would ever be granted.
    adapting = {"X-Adapt-Max-Tokens": "1"}
    call = await server.call(route, adapting, model="few")
    assert call.status == 429
    assert int(call.headers["retry-after"]) >= 1
    taken[0].undo()
    call = await server.call(route, adapting, model="few")
    assert (call.status in (200, 202), asked(server.engine)) == (True, 10)


async def test_a_prompt_that_never_fits_is_refused_for_good_though_it_adapts(
    server: Server,
) -> None:
    prompt = " ".join(["word"] * 12)
    call = await server.call("completions", model="few", prompt=prompt, adapt_max_tokens=True)
    assert call.status == 400
    assert b"cost_exceeds_limit" in call.body


async def test_branches_share_what_is_left(server: Server) -> None:
    await use_all_but(server, 30)
    server.engine.script = answer
    call = await server.call(
        "native", adapt_max_tokens=True, branches=[{"max_tokens": 20}, {"max_tokens": 5}]
    )
    # Two places at once are more than one.
    assert call.status == 400
    call = await server.call(
        "native",
        adapt_max_tokens=True,
        branches=[{"max_tokens": 20}, {"model": "m", "max_tokens": 5}],
    )
    assert (call.status, call.headers["x-max-tokens"]) == (200, "13, 5")


@pytest.mark.parametrize("word", ["2", "yes", ""])
async def test_a_header_that_says_neither_yes_nor_no_is_refused(server: Server, word: str) -> None:
    call = await server.call(headers={"X-Adapt-Max-Tokens": word})
    assert call.status == 422


async def use_all_but(server: Server, tokens: int) -> None:
    """The tokens that others have used."""
    admitted = await server.admission.admit([Demand("default", "q", 1000 - tokens)])
    assert isinstance(admitted, list)
    admitted[0].settle(1000 - tokens)


async def test_engine_state_and_span_know_whose_request_it_is_and_what_is_left(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributes: dict[str, object] = {}

    class Span:
        def is_recording(self) -> bool:
            return True

        def set_attribute(self, name: str, value: object) -> None:
            attributes[name] = value

    monkeypatch.setattr("opentelemetry.trace.get_current_span", Span)
    call = await server.call(headers={"X-Flow-Id": "flow-7"})
    assert call.status == 200
    (context,) = server.engine.contexts.values()
    assert (context.flow_id, context.tenant, context.quota_remaining) == ("flow-7", "default", 978)
    assert call.scope["state"]["quota_remaining"] == 978
    assert call.scope["state"]["lease"].tokens == 22
    assert attributes == {
        "millstream.tenant": "default",
        "millstream.flow_id": "flow-7",
        "millstream.quota_remaining": 978,
    }


@pytest.mark.parametrize(
    ("field", "urgency"),
    [(None, 2), ("u=1", 2), ("u=2", 2), ("u=3", 3), ("u=7, i", 7), ("u=8", 2), ("u", 2)],
)
async def test_a_request_may_be_less_urgent_than_its_tenant_and_never_more(
    server: Server, monkeypatch: pytest.MonkeyPatch, field: str | None, urgency: int
) -> None:
    heard: list[int] = []
    admit: Callable[..., Any] = server.admission.admit

    async def listening(demands: Any, *, urgency: int) -> Any:
        heard.append(urgency)
        return await admit(demands, urgency=urgency)

    monkeypatch.setattr(server.admission, "admit", listening)
    for route in ("chat", "completions", "responses", "native"):
        await server.call(route, {} if field is None else {"Priority": field})
    assert heard == [urgency] * 4


async def test_a_stream_keeps_no_more_than_it_has_reserved(server: Server) -> None:
    server.engine.script = silent
    call = await server.call("chat streamed")
    assert call.status == 200
    assert (await server.left())[3] == 1024 - 8
    (log,) = server.engine.logs.values()
    for _ in range(100):
        server.engine.token(max(server.engine.logs), "x" * 1000)
    assert log.bytes <= 8192


async def test_a_whole_answer_reserves_what_one_stream_may_hold(server: Server) -> None:
    server.engine.script = silent
    await server.call("chat")
    assert (await server.left())[3] == 1024 - 8
