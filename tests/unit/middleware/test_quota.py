"""What is left of the limits, told to an app that reserves by itself."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from millstream.admission import Limits, MemoryLimiter, ScopedLimits, Snapshot, TokenWindow
from millstream.middleware import QuotaMiddleware
from tests.unit.middleware.asgi import answers, request, served

SCOPES = (ScopedLimits("global", Limits(tokens=TokenWindow(100, 1000))),)
LIMITER = MemoryLimiter(clock=lambda: 0)


async def of_all(_scope: Scope) -> Snapshot | None:
    return await LIMITER.peek(SCOPES)


async def unlimited(_scope: Scope) -> Snapshot | None:
    return await LIMITER.peek(())


async def unknown(_scope: Scope) -> Snapshot | None:
    return None


async def test_the_state_says_what_is_left_and_nothing_is_taken() -> None:
    for _ in range(2):
        exchange = await served(QuotaMiddleware(answers, of_all))
        assert exchange.scope["state"]["quota_remaining"] == 100
        assert exchange.fields == {"a": "b"}


async def test_without_a_limit_the_quota_is_none_and_unknown_it_is_not_there() -> None:
    exchange = await served(QuotaMiddleware(answers, unlimited))
    assert exchange.scope["state"]["quota_remaining"] is None
    exchange = await served(QuotaMiddleware(answers, unknown))
    assert "quota_remaining" not in exchange.scope["state"]


async def test_the_send_of_the_server_reaches_the_app() -> None:
    seen: list[Send] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(send)

    exchange = request()
    await QuotaMiddleware(app, of_all)(exchange.scope, exchange.receive, send := exchange.send)
    assert seen[0] is send
