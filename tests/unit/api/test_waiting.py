"""Requests that wait for a limit: what their clients may do meanwhile, and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from millstream.api import opening
from tests.unit.api.calls import settle
from tests.unit.api.queued import QueuedServer, everywhere, queued_server, silent
from tests.unit.scripted_engine import ScriptedEngine


@pytest.fixture
async def server(engine: ScriptedEngine, tmp_path: Path) -> AsyncIterator[QueuedServer]:
    async with queued_server(engine, tmp_path) as made:
        yield made


@everywhere
async def test_a_request_waits_and_is_answered_when_there_is_room(
    server: QueuedServer, route: str
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
    server: QueuedServer, route: str
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
async def test_who_leaves_gives_its_idempotency_key_back(server: QueuedServer, route: str) -> None:
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
    server: QueuedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "PATIENCE_SECONDS", 0.0)
    held = await server.holding()
    key = {"Idempotency-Key": "k"}
    calls = [await server.call("chat", key) for _ in range(2)]
    await asyncio.sleep(0.06)  # the second one looks every 20 ms, and gave up at the first look
    assert server.admission.waiting == 1
    await server.finish(held)
    async with asyncio.timeout(120):
        await asyncio.gather(*(call.task for call in calls))
    assert [call.status for call in calls] == [200, 200]
    assert "idempotent-replayed" in calls[1].headers
    assert len(server.engine.submitted) == 2


@everywhere
async def test_who_waits_can_be_seen_and_how_that_ended(server: QueuedServer, route: str) -> None:
    held = await server.holding()
    await server.call(route)
    leaver = await server.call(route)
    assert scraped(server, "waiting") == 2
    await leaver.leave()
    await server.finish(held)
    assert scraped(server, "waiting") == 0
    assert scraped(server, "wait_seconds_count") == 2
    for outcome in ("admitted", "client_gone"):
        assert scraped(server, "waits_total", f',outcome="{outcome}"') == 1


def scraped(server: QueuedServer, name: str, labels: str = "") -> float:
    text = server.services.metrics.render()[0].decode()
    key = f'millstream_admission_{name}{{model="q"{labels}}} '
    return sum(float(line.removeprefix(key)) for line in text.splitlines() if line.startswith(key))


@everywhere
async def test_nobody_waits_for_a_server_that_leaves(server: QueuedServer, route: str) -> None:
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
    server: QueuedServer,
) -> None:
    held = await server.holding()
    call = await server.call()
    server.services.drain.begin()
    await server.finish(held)
    assert call.status == 503
    assert len(server.engine.submitted) == 1
    assert (await server.left())[2:] == (1, 1024)


async def test_an_engine_that_has_gone_while_the_request_waited_costs_nothing(
    server: QueuedServer,
) -> None:
    held = await server.holding()
    call = await server.call()
    server.engine.ready = False
    await server.finish(held)
    assert call.status == 503
    assert (await server.left())[2:] == (1, 1024)


async def test_a_stream_that_had_to_wait_still_hears_its_client_leave(server: QueuedServer) -> None:
    held = await server.holding()
    server.engine.script = silent
    call = await server.call("chat streamed")
    await server.finish(held)
    assert call.status == 200
    await call.leave()
    assert call.task.done()
    assert server.engine.aborted[-1] == max(server.engine.logs)
    assert (await server.left())[2:] == (1, 1024)


async def test_engine_state_and_span_know_whose_request_it_is_and_what_is_left(
    server: QueuedServer, monkeypatch: pytest.MonkeyPatch
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
    server: QueuedServer, monkeypatch: pytest.MonkeyPatch, field: str | None, urgency: int
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


async def test_a_stream_keeps_no_more_than_it_has_reserved(server: QueuedServer) -> None:
    server.engine.script = silent
    call = await server.call("chat streamed")
    assert call.status == 200
    assert (await server.left())[3] == 1024 - 8
    (log,) = server.engine.logs.values()
    for _ in range(100):
        server.engine.token(max(server.engine.logs), "x" * 1000)
    assert log.bytes <= 8192


async def test_a_whole_answer_reserves_what_one_stream_may_hold(server: QueuedServer) -> None:
    server.engine.script = silent
    await server.call("chat")
    assert (await server.left())[3] == 1024 - 8
