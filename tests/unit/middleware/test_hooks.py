"""Hooks around the life of a request."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millstream.admission import Cost, Limits, MemoryLimiter, RequestRate, ScopedLimits
from millstream.identity.principal import Principal
from millstream.middleware import (
    Admitted,
    Ended,
    FirstByte,
    HookMiddleware,
    LimitMiddleware,
    RequestHooks,
)
from tests.unit.middleware.asgi import (
    LAST,
    START,
    answers,
    fails_after,
    fails_before,
    gives_up,
    refuses,
    request,
    served,
    settle,
)
from tests.unit.middleware.witnesses import Heard


def limited(app: ASGIApp) -> LimitMiddleware:
    scopes = (ScopedLimits("global", Limits(requests=RequestRate(1, 1))),)
    limiter = MemoryLimiter(clock=lambda: 0)
    return LimitMiddleware(app, limiter, lambda _: scopes, cost=lambda _: Cost(tokens=7))


async def test_a_request_is_admitted_begins_to_be_answered_and_ends() -> None:
    heard, clock = Heard(), iter(range(100))
    app = HookMiddleware(limited(answers), [heard], clock=lambda: next(clock))
    exchange = request(
        path="/p", tenant="acme", principal=Principal("key", "k"), request_id="r", flow_id="f"
    )
    await served(app, exchange)
    await settle()
    facts: dict[str, Any] = {
        "method": "GET",
        "path": "/p",
        "route": None,
        "tenant": "acme",
        "subject": "k",
        "request_id": "r",
        "flow_id": "f",
        "stream_id": None,
        "model": None,
    }
    assert heard.events == [
        Admitted(**facts, elapsed_ns=1, quota_remaining=None),
        FirstByte(**facts, elapsed_ns=2, status=200),
        Ended(**facts, elapsed_ns=3, status=200, outcome="completed", usage=None, partial=False),
    ]


@pytest.mark.parametrize(
    ("app", "status", "outcome", "begins"),
    [
        (answers, 200, "completed", True),
        (refuses, 404, "refused", True),
        (gives_up, 499, "client_gone", False),
        (fails_before, 500, "failed", False),
        (fails_after, 200, "failed", True),
    ],
)
async def test_every_ending_is_one_outcome(
    app: ASGIApp, status: int, outcome: str, begins: bool
) -> None:
    heard = Heard()
    try:
        await served(HookMiddleware(app, [heard]))
    except RuntimeError:
        assert outcome == "failed"
    await settle()
    assert heard.kinds == [FirstByte, Ended] if begins else [Ended]
    assert (heard.events[-1].status, heard.events[-1].outcome) == (status, outcome)


async def test_a_refusal_by_the_limits_is_an_outcome_without_an_admission() -> None:
    heard = Heard()
    app = HookMiddleware(limited(answers), [heard])
    await served(app)
    await served(app)
    await settle()
    assert heard.kinds == [Admitted, FirstByte, Ended, FirstByte, Ended]
    assert (heard.events[-1].status, heard.events[-1].outcome) == (429, "refused")


async def test_a_request_that_is_cancelled_has_its_outcome() -> None:
    heard, waiting = Heard(), asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(START)
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(served(HookMiddleware(app, [heard])))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle()
    assert heard.kinds == [Ended]
    assert (heard.events[0].status, heard.events[0].outcome) == (200, "client_gone")


class Failing(RequestHooks):
    """Fails whenever it is called."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def on_admitted(self, event: Admitted) -> None:
        raise self._error

    async def on_outcome(self, event: Ended) -> None:
        raise self._error


@pytest.mark.parametrize("error", [ValueError("broken"), asyncio.CancelledError()])
async def test_a_hook_that_fails_disturbs_nobody_and_is_logged(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()
    app = HookMiddleware(limited(answers), [Failing(error), heard])
    with caplog.at_level(logging.ERROR, "millstream"):
        exchange = await served(app)
        await settle()
    assert exchange.sent[-1] == LAST
    assert heard.kinds == [Admitted, FirstByte, Ended]
    calls = [record.__dict__["millstream_fields"]["call"] for record in caplog.records]
    assert calls == ["on_admitted", "on_outcome"]


async def test_hooks_hear_one_after_the_other_and_events_in_order() -> None:
    order: list[str] = []

    class Slow(RequestHooks):
        async def on_first_byte(self, event: FirstByte) -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            order.append("slow first byte")

        async def on_outcome(self, event: Ended) -> None:
            order.append("slow outcome")

    class Quick(RequestHooks):
        async def on_first_byte(self, event: FirstByte) -> None:
            order.append("quick first byte")

        async def on_outcome(self, event: Ended) -> None:
            order.append("quick outcome")

    await served(HookMiddleware(answers, [Slow(), Quick()]))
    await settle()
    assert order == ["slow first byte", "quick first byte", "slow outcome", "quick outcome"]


async def test_no_hook_delays_an_answer() -> None:
    class Stuck(RequestHooks):
        async def on_admitted(self, event: Admitted) -> None:
            await asyncio.Event().wait()

    exchange = await served(HookMiddleware(limited(answers), [Stuck()]))
    assert exchange.sent[-1] == LAST
    (task,) = asyncio.all_tasks() - {asyncio.current_task()}
    task.cancel()


async def test_hooks_run_in_the_context_of_the_request() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")
    seen: list[str] = []

    class Reading(RequestHooks):
        async def on_outcome(self, event: Ended) -> None:
            seen.append(variable.get())

    async def around(scope: Scope, receive: Receive, send: Send) -> None:
        variable.set("the request's")
        await HookMiddleware(answers, [Reading()])(scope, receive, send)

    await asyncio.create_task(served(around))
    await settle()
    assert seen == ["the request's"]


async def test_without_hooks_the_app_is_called_as_it_is() -> None:
    seen: list[tuple[Scope, Receive, Send]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope, receive, send))

    exchange = request()
    receive, send = exchange.receive, exchange.send
    await HookMiddleware(app, [])(exchange.scope, receive, send)
    assert seen[0][1] is receive
    assert seen[0][2] is send
    assert exchange.scope["state"] == {}


async def test_the_end_of_the_server_waits_for_hooks_that_run() -> None:
    finished = asyncio.Event()
    ended: list[str] = []

    class Working(RequestHooks):
        async def on_outcome(self, event: Ended) -> None:
            await finished.wait()
            ended.append("hook")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await answers(scope, receive, send)
        else:
            await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)
        ended.append(message["type"])

    hooked = HookMiddleware(app, [Working()])
    exchange = await served(hooked)
    await settle()
    lifespan = asyncio.create_task(hooked({"type": "lifespan"}, exchange.receive, send))
    await settle()
    assert ended == ["lifespan.startup.complete"]
    finished.set()
    await lifespan
    assert ended == ["lifespan.startup.complete", "hook", "lifespan.shutdown.complete"]
