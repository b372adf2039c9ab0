"""Limits on whole requests, over the limiter that counts in this process."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from millstream.admission import (
    Cost,
    Lease,
    Limits,
    MemoryLimiter,
    Refusal,
    RequestRate,
    ScopedLimits,
    Snapshot,
    TokenWindow,
)
from millstream.errors import LimiterUnavailable
from millstream.middleware import LimitMiddleware, client_address_scopes, tenant_scopes
from millstream.middleware.response_start import response_start
from tests.unit.middleware.asgi import (
    LAST,
    START,
    Exchange,
    answers,
    fails_after,
    fails_before,
    gives_up,
    request,
    served,
)
from tests.unit.middleware.witnesses import Trail

LIMITS = Limits(
    requests=RequestRate(1, 2), tokens=TokenWindow(limit=100, window_ms=60_000), concurrency=2
)
SCOPES = (ScopedLimits("tenant:acme", LIMITS),)


def tens(_scope: Scope) -> Cost:
    return Cost(tokens=10)


@dataclass
class Bench:
    """A limiter, and what stands around an app by it."""

    limiter: MemoryLimiter = field(default_factory=lambda: MemoryLimiter(clock=lambda: 0))

    def around(self, app: ASGIApp, **options: object) -> LimitMiddleware:
        given = {"cost": tens} | options
        return LimitMiddleware(app, self.limiter, lambda _: SCOPES, **given)  # type: ignore[arg-type]

    async def left(self) -> tuple[int, int, int]:
        """Requests, tokens and places that are left."""
        snapshot = await self.limiter.peek(SCOPES)
        meters = (snapshot.requests, snapshot.tokens, snapshot.concurrency)
        requests, tokens, places = (meter.remaining for meter in meters if meter is not None)
        return requests, tokens, places


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_request_is_reserved_for_before_and_charged_after(bench: Bench) -> None:
    during: list[tuple[int, int, int]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        during.append(await bench.left())
        assert scope["state"]["quota_remaining"] == 90
        assert scope["state"]["lease"].tokens == 10
        await answers(scope, receive, send)

    exchange = await served(bench.around(app))
    assert during == [(1, 90, 1)]
    assert await bench.left() == (1, 90, 2)
    assert exchange.fields == {
        "a": "b",
        "x-ratelimit-limit-requests": "2",
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "100",
        "x-ratelimit-remaining-tokens": "90",
        "x-ratelimit-reset-tokens": exchange.fields["x-ratelimit-reset-tokens"],
        "ratelimit-policy": exchange.fields["ratelimit-policy"],
        "ratelimit": exchange.fields["ratelimit"],
    }
    assert exchange.fields["ratelimit"].startswith('"requests";r=1;t=1, "tokens";r=90;t=')
    assert exchange.fields["ratelimit"].endswith('"concurrency";r=1')


async def test_the_app_may_settle_by_its_own_count(bench: Bench) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answers(scope, receive, send)
        assert scope["state"]["lease"].settle(3)

    await served(bench.around(app))
    assert await bench.left() == (1, 97, 2)


@pytest.mark.parametrize("app", [fails_before, fails_after, gives_up, answers])
async def test_every_ending_is_charged_and_frees_its_place(app: ASGIApp, bench: Bench) -> None:
    # litellm#27955, #20256: slots leaked on cancel and on success.
    try:
        await served(bench.around(app))
    except RuntimeError:
        assert app in (fails_before, fails_after)
    assert await bench.left() == (1, 90, 2)


@pytest.mark.parametrize("started", [False, True])
async def test_a_request_that_is_cancelled_frees_its_place(started: bool, bench: Bench) -> None:
    waiting = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        if started:
            await send(START)
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(served(bench.around(app)))
    await waiting.wait()
    assert (await bench.left())[2] == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await bench.left() == (1, 90, 2)


async def test_a_limit_that_is_reached_is_a_429_with_its_wait_and_a_record(bench: Bench) -> None:
    trail, reached = Trail(), list[int]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(1)
        await answers(scope, receive, send)

    limited = bench.around(app, audit=trail)
    await served(limited)
    await served(limited)
    refused = await served(limited, request(tenant="acme", request_id="r", flow_id="f"))
    assert len(reached) == 2
    assert refused.status == 429
    told = json.loads(refused.body)
    assert told["error"]["code"] == "rate_limit_exceeded"
    assert told["violated_policies"] == ["requests"]
    assert refused.fields["cache-control"] == "no-store"
    assert (refused.fields["retry-after"], refused.fields["retry-after-ms"]) == ("1", "1000")
    assert refused.fields["x-ratelimit-remaining-requests"] == "0"
    assert trail.records == [
        (
            "limit_refused",
            {
                "method": "GET",
                "route": None,
                "scope": "tenant:acme",
                "dimension": "requests",
                "tenant": "acme",
                "subject": None,
                "request_id": "r",
                "flow_id": "f",
            },
        )
    ]


async def test_a_cost_that_never_fits_is_a_400_without_a_wait(bench: Bench) -> None:
    refused = await served(bench.around(answers, cost=lambda _: Cost(tokens=101)))
    assert refused.status == 400
    assert json.loads(refused.body)["error"]["code"] == "cost_exceeds_limit"
    assert "retry-after" not in refused.fields
    assert refused.fields["x-should-retry"] == "false"
    assert await bench.left() == (2, 100, 2)


class Away(MemoryLimiter):
    """Counters that cannot be reached."""

    async def reserve(self, scopes: tuple[ScopedLimits, ...], cost: Cost) -> Lease | Refusal:
        raise LimiterUnavailable("away")

    async def peek(self, scopes: tuple[ScopedLimits, ...]) -> Snapshot:
        raise LimiterUnavailable("away")


async def test_limits_that_cannot_be_counted_are_a_503() -> None:
    bench = Bench(Away())
    refused = await served(bench.around(answers))
    assert refused.status == 503
    assert refused.fields["retry-after"] == "5"
    assert json.loads(refused.body)["error"]["code"] == "limiter_unavailable"


async def test_a_request_without_scopes_is_not_limited(bench: Bench) -> None:
    exchange = await served(LimitMiddleware(answers, bench.limiter, lambda _: ()))
    assert exchange.sent == [START, LAST]


async def test_a_scope_without_a_token_limit_has_no_quota(bench: Bench) -> None:
    scopes = (ScopedLimits("global", Limits(concurrency=1)),)
    exchange = await served(LimitMiddleware(answers, bench.limiter, lambda _: scopes))
    assert exchange.scope["state"]["quota_remaining"] is None
    assert set(exchange.fields) == {"a", "ratelimit-policy", "ratelimit"}


async def status_of(app: ASGIApp, address: str = "192.0.2.1", **state: object) -> int:
    exchange = request()
    exchange.scope["client"] = (address, 4711)
    exchange.scope["state"] = state
    return (await served(app, exchange)).status


async def test_each_address_has_its_own_limits(bench: Bench) -> None:
    scopes = client_address_scopes(Limits(requests=RequestRate(1, 1)))
    limited = LimitMiddleware(answers, bench.limiter, scopes)
    assert await status_of(limited, "192.0.2.1") == 200
    assert await status_of(limited, "192.0.2.1") == 429
    assert await status_of(limited, "192.0.2.2") == 200


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("unix:/run/a", "unix:/run/b", False),
    ],
)
def test_a_client_has_a_whole_network_of_ipv6_addresses(
    first: str, second: str, is_same: bool
) -> None:
    scopes = client_address_scopes(LIMITS)
    of_first, of_second = (scopes({"client": (address, 1)}) for address in (first, second))
    assert (of_first is of_second) is is_same
    assert (of_first == of_second) is is_same


async def test_each_tenant_has_its_own_limits_and_nobody_shares_one(bench: Bench) -> None:
    limited = LimitMiddleware(
        answers, bench.limiter, tenant_scopes(Limits(requests=RequestRate(1, 1)))
    )
    assert await status_of(limited, tenant="a") == 200
    assert await status_of(limited, tenant="a") == 429
    assert await status_of(limited, tenant="b") == 200
    assert await status_of(limited) == 200
    assert await status_of(limited) == 429


async def test_it_registers_with_the_wrapper_that_is_there(bench: Bench) -> None:
    exchange: Exchange = request()
    _, wrapped = response_start(exchange.scope, exchange.send)
    seen: list[Send] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        seen.append(send)
        await send(START)

    await bench.around(app)(exchange.scope, exchange.receive, wrapped)
    assert seen == [wrapped]
    assert exchange.fields["x-ratelimit-limit-tokens"] == "100"


def test_the_scopes_of_a_key_are_the_same_tuple_again() -> None:
    # By which the limiter finds what it has made of them.
    scopes = client_address_scopes(LIMITS)
    assert scopes(request().scope) is scopes(request().scope)
    tenants = tenant_scopes(LIMITS)
    assert tenants(request(tenant="a").scope) is tenants(request(tenant="a").scope)
    assert tenants(request(tenant="a").scope) != tenants(request(tenant="b").scope)
