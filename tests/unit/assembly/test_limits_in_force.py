"""What is left for a tenant, by the limits of the moment."""

from __future__ import annotations

import pytest

from millstream.admission import Admission, LimitBook, Limits, MemoryLimiter, TokenWindow
from millstream.assembly.limits_in_force import LimitsInForce
from millstream.errors import LimiterUnavailable
from tests.unit.middleware.asgi import request


def book(tokens: int) -> LimitBook:
    limits = Limits(tokens=TokenWindow(limit=tokens, window_ms=1000))
    return LimitBook(Limits(concurrency=5), tenants={"acme": limits})


async def remaining(in_force: LimitsInForce, tenant: str) -> int | None:
    snapshot = await in_force.peek(in_force.scopes(request(tenant=tenant).scope))
    return None if snapshot.tokens is None else snapshot.tokens.remaining


async def test_an_app_that_has_not_started_limits_nothing_yet() -> None:
    in_force = LimitsInForce()
    assert in_force.scopes(request(tenant="acme").scope) == ()
    with pytest.raises(LimiterUnavailable):
        await in_force.peek(())


async def test_the_limits_are_those_of_the_tenant_and_of_all_and_of_the_moment() -> None:
    in_force = LimitsInForce()
    in_force.admission = Admission(MemoryLimiter(clock=lambda: 0), book(100), clock=lambda: 0)
    names = [scope for scope, _ in in_force.scopes(request(tenant="acme").scope)]
    assert names == ["global", "tenant:acme"]
    assert await remaining(in_force, "acme") == 100
    assert await remaining(in_force, "other") is None
    in_force.admission.replace(book(7))
    assert await remaining(in_force, "acme") == 7


def test_a_request_without_a_tenant_is_asked_nothing_about() -> None:
    # A probe has none.
    in_force = LimitsInForce()
    in_force.admission = Admission(MemoryLimiter(clock=lambda: 0), book(100), clock=lambda: 0)
    assert in_force.scopes(request().scope) == ()


def test_scopes_that_have_not_changed_are_the_same_tuple() -> None:
    in_force = LimitsInForce()
    in_force.admission = Admission(MemoryLimiter(clock=lambda: 0), book(100), clock=lambda: 0)
    scope = request(tenant="acme").scope
    first = in_force.scopes(scope)
    assert in_force.scopes(scope) is first
    in_force.admission.replace(book(7))
    assert in_force.scopes(scope) is not first
