"""Less instead of nothing: requests that take what a limit has left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream.admission import Cost, Demand, Lease, Limits
from tests.unit.api.queued import QueuedServer, everywhere, queued_server, silent
from tests.unit.scripted_engine import ScriptedEngine, answer


@pytest.fixture
async def server(engine: ScriptedEngine, tmp_path: Path) -> AsyncIterator[QueuedServer]:
    async with queued_server(engine, tmp_path) as made:
        yield made


def asked(engine: ScriptedEngine, number: int = -1) -> int:
    return engine.submitted[number][1].max_tokens


@pytest.mark.parametrize(
    ("headers", "fields"),
    [({"X-Adapt-Max-Tokens": "1"}, {}), ({}, {"adapt_max_tokens": True})],
    ids=["header", "body"],
)
@everywhere
async def test_a_request_takes_what_is_left_if_it_says_so(
    server: QueuedServer, route: str, headers: dict[str, str], fields: dict[str, object]
) -> None:
    await use_all_but(server, 12)
    call = await server.call(route, headers, **fields)
    assert call.status in (200, 202)
    # Prompts have two words, and so two tokens.
    assert (asked(server.engine), call.headers["x-max-tokens"]) == (10, "10")


async def test_what_fits_is_not_shortened(server: QueuedServer) -> None:
    call = await server.call(headers={"X-Adapt-Max-Tokens": "1"})
    assert (call.status, asked(server.engine)) == (200, 20)
    assert "x-max-tokens" not in call.headers


async def test_not_one_token_left_is_a_refusal_as_ever(server: QueuedServer) -> None:
    await use_all_but(server, 2)
    call = await server.call(headers={"X-Adapt-Max-Tokens": "1"})
    assert call.status == 429


@everywhere
async def test_what_would_exceed_even_an_unused_limit_may_come_again_later_if_it_adapts(
    server: QueuedServer, route: str
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
    server: QueuedServer,
) -> None:
    prompt = " ".join(["word"] * 12)
    call = await server.call("completions", model="few", prompt=prompt, adapt_max_tokens=True)
    assert call.status == 400
    assert b"cost_exceeds_limit" in call.body


async def test_branches_share_what_is_left(server: QueuedServer) -> None:
    await use_all_but(server, 20)
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
    # The other model has no limit, and takes no share.
    assert (call.status, call.headers["x-max-tokens"]) == (200, "18, 5")


@pytest.mark.parametrize("word", ["-1", "1.5", "yes", "", "٣", "1" * 10])
async def test_a_header_that_says_neither_yes_nor_no_is_refused(
    server: QueuedServer, word: str
) -> None:
    call = await server.call(headers={"X-Adapt-Max-Tokens": word})
    assert call.status == 422


@pytest.mark.parametrize("word", [0, -1, 1.5, "1", [1]])
async def test_a_member_that_says_neither_yes_nor_no_is_refused(
    server: QueuedServer, word: object
) -> None:
    call = await server.call(adapt_max_tokens=word)
    assert call.status == 422


least = pytest.mark.parametrize(
    ("headers", "fields"),
    [({"X-Adapt-Max-Tokens": "8"}, {}), ({}, {"adapt_max_tokens": 8})],
    ids=["header", "body"],
)


@least
@everywhere
async def test_less_than_the_client_is_content_with_is_refused(
    server: QueuedServer, route: str, headers: dict[str, str], fields: dict[str, object]
) -> None:
    await use_all_but(server, 9)
    call = await server.call(route, headers, **fields)
    assert call.status == 429  # nothing comes back within the deadline of the queue
    call = await server.call(route, {"X-Adapt-Max-Tokens": "7"})
    assert (asked(server.engine), call.headers["x-max-tokens"]) == (7, "7")


async def test_a_least_above_max_tokens_is_all_of_them(server: QueuedServer) -> None:
    await use_all_but(server, 5)
    call = await server.call(adapt_max_tokens=1000, max_tokens=3)
    assert (call.status, asked(server.engine)) == (200, 3)


async def test_what_is_left_counts_at_the_end_of_the_wait(server: QueuedServer) -> None:
    held = await server.holding()
    # All of it is there when the request comes, and little when its turn comes.
    call = await server.call(adapt_max_tokens=True)
    assert server.admission.waiting == 1
    used = await use_all_but_elsewhere(server, 0)
    used.settle(used.tokens)
    # The one ahead has reserved 22 and takes 7.
    await server.finish(held)
    assert (call.status, asked(server.engine), call.headers["x-max-tokens"]) == (200, 13, "13")


async def test_what_comes_back_during_the_wait_counts_too(server: QueuedServer) -> None:
    script, server.engine.script = server.engine.script, silent
    await server.call("chat streamed")
    server.engine.script = script
    used = await use_all_but_elsewhere(server, 12)
    call = await server.call(adapt_max_tokens=True)
    assert server.admission.waiting == 1
    used.undo()
    await server.finish(max(server.engine.callbacks))
    assert (call.status, asked(server.engine)) == (200, 20)


async def use_all_but_elsewhere(server: QueuedServer, tokens: int) -> Lease:
    """The same beside the queue, of places that there are."""
    limiter, (scoped,) = server.admission.limiter, server.admission.scopes("default", "q")
    snapshot = await limiter.peek((scoped,))
    assert snapshot.tokens is not None
    without = scoped._replace(limits=Limits(tokens=scoped.limits.tokens))
    taken = await limiter.reserve((without,), Cost(snapshot.tokens.remaining - tokens))
    assert isinstance(taken, Lease)
    return taken


async def use_all_but(server: QueuedServer, tokens: int) -> None:
    """The tokens that others have used."""
    admitted = await server.admission.admit([Demand("default", "q", 1000 - tokens)])
    assert isinstance(admitted, list)
    admitted[0].settle(1000 - tokens)
