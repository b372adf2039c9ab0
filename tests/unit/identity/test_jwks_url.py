"""Keys behind an address, which rotates them, fails, lies and goes away."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from millstream._core import JwtError, JwtVerifier
from millstream.errors import KeysUnavailable
from millstream.identity import jwks_fetch
from millstream.identity.jwks_fetch import MAX_BYTES
from millstream.identity.jwks_url import JwksUrl
from tests.clock import Clock
from tests.reference.jwt_tokens import NOW, key_set, public_jwk, signed
from tests.unit.identity.key_server import KeyServer, key_server

FIRST = key_set(public_jwk("ES256", 0))
BOTH = key_set(public_jwk("ES256", 0), public_jwk("ES256", 1))
SECOND = key_set(public_jwk("ES256", 1))


class Keys:
    """A source under test with its verifier and clock."""

    def __init__(self, url: str, **options: Any) -> None:
        self.clock = Clock()
        self.verifier = JwtVerifier(algorithms=["ES256"])
        chosen = {"cache_seconds": 300.0, "stale_seconds": 600.0, **options}
        self.source = JwksUrl(url, self.verifier, clock=self.clock, **chosen)

    def knows(self, number: int) -> bool:
        try:
            self.verifier.verify(signed("ES256", number=number, kid=f"k{number}"), NOW)
        except JwtError:
            return False
        return True


@asynccontextmanager
async def keys(server: KeyServer, **options: Any) -> AsyncIterator[Keys]:
    made = Keys(server.url, **options)
    await made.source.start()
    try:
        yield made
    finally:
        await made.source.close()


async def test_keys_are_fetched_at_the_start_and_then_not_while_they_are_fresh() -> None:
    async with key_server(FIRST) as server, keys(server) as it:
        assert it.knows(0)
        for _ in range(3):
            it.clock.pass_seconds(99)
            await it.source.prepare()

        assert (server.asked, it.source.revision) == (1, 1)


async def test_a_key_that_its_issuer_takes_back_is_gone_when_the_cache_ends() -> None:
    async with key_server(BOTH) as server, keys(server) as it:
        server.body = SECOND
        it.clock.pass_seconds(299)
        await it.source.prepare()
        assert it.knows(0)

        it.clock.pass_seconds(1)
        await it.source.prepare()

        assert not it.knows(0)
        assert it.knows(1)


async def test_an_issuer_may_take_all_its_keys_back() -> None:
    async with key_server(FIRST) as server, keys(server) as it:
        server.body = key_set()
        it.clock.pass_seconds(300)
        await it.source.prepare()

        assert it.verifier.key_count == 0


async def test_an_unknown_key_fetches_once_in_a_few_seconds() -> None:
    async with key_server(FIRST) as server, keys(server) as it:
        assert not await it.source.changed_since(1)
        assert server.asked == 1  # it has only just been asked

        server.body = BOTH
        it.clock.pass_seconds(5)
        assert await it.source.changed_since(1)
        assert it.knows(1)
        assert server.asked == 2

        for _ in range(20):
            assert not await it.source.changed_since(2)
        assert server.asked == 2
        it.clock.pass_seconds(5)
        assert not await it.source.changed_since(2)
        assert server.asked == 3


async def test_unknown_keys_leave_a_server_alone_that_has_just_failed() -> None:
    async with key_server(FIRST) as server, keys(server) as it:
        server.open.clear()
        server.arrived.clear()
        server.status = 500
        it.clock.pass_seconds(5)
        waiting = asyncio.create_task(it.source.changed_since(1))
        await server.arrived.wait()
        it.clock.pass_seconds(5)  # as long as a fetch may take
        server.open.set()
        assert not await waiting

        assert not await it.source.changed_since(1)
        assert server.asked == 2
        it.clock.pass_seconds(5)
        await it.source.changed_since(1)
        assert server.asked == 3


async def test_many_who_need_keys_share_one_fetch() -> None:
    async with key_server(FIRST) as server, keys(server) as it:
        server.open.clear()
        server.arrived.clear()
        server.body = BOTH
        it.clock.pass_seconds(300)
        prepared = [asyncio.create_task(it.source.prepare()) for _ in range(50)]
        changed = [asyncio.create_task(it.source.changed_since(1)) for _ in range(50)]
        await server.arrived.wait()
        server.open.set()
        await asyncio.gather(*prepared)

        assert await asyncio.gather(*changed) == [True] * 50
        assert server.asked == 2


async def test_whoever_gives_up_takes_the_fetch_from_nobody() -> None:
    async with key_server(FIRST) as server, keys(server) as it:
        server.open.clear()
        server.arrived.clear()
        it.clock.pass_seconds(300)
        leaver = asyncio.create_task(it.source.prepare())
        stayer = asyncio.create_task(it.source.prepare())
        await server.arrived.wait()
        leaver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaver
        server.open.set()
        await stayer

        assert server.asked == 2


async def test_old_keys_go_on_while_the_server_is_away_and_then_end() -> None:
    async with key_server(FIRST) as server, keys(server) as it:
        await server.down()
        it.clock.pass_seconds(300)
        for _ in range(100):
            await it.source.prepare()
            assert it.knows(0)
            it.clock.pass_seconds(5.9)

        it.clock.pass_seconds(10)
        with pytest.raises(KeysUnavailable):
            await it.source.prepare()

        await server.up()
        it.clock.pass_seconds(5)
        await it.source.prepare()
        assert it.knows(0)


async def test_nobody_waits_for_a_server_that_has_just_failed() -> None:
    async with key_server(FIRST) as server, keys(server) as it:
        server.status = 500
        it.clock.pass_seconds(300)
        await it.source.prepare()
        assert server.asked == 2
        server.open.clear()
        server.arrived.clear()

        it.clock.pass_seconds(4.9)
        await it.source.prepare()  # a pause between attempts
        assert server.asked == 2
        it.clock.pass_seconds(0.1)
        await it.source.prepare()  # one begins, and is not waited for
        await server.arrived.wait()

        assert server.asked == 3
        assert it.knows(0)


async def test_a_server_that_is_away_at_the_start_may_come_later() -> None:
    async with key_server(FIRST) as server:
        await server.down()
        async with keys(server) as it:
            with pytest.raises(KeysUnavailable):
                await it.source.prepare()
            await server.up()
            with pytest.raises(KeysUnavailable):
                await it.source.prepare()
            it.clock.pass_seconds(5)
            await it.source.prepare()

            assert it.knows(0)


async def test_without_staleness_old_keys_end_with_the_cache() -> None:
    async with key_server(FIRST) as server, keys(server, stale_seconds=0, cache_seconds=1) as it:
        it.clock.pass_seconds(1)
        await it.source.prepare()
        await server.down()
        it.clock.pass_seconds(1)

        with pytest.raises(KeysUnavailable):
            await it.source.prepare()


BAD: dict[str, dict[str, Any]] = {
    "a status": {"status": 404},
    "no JSON": {"body": b"<html>"},
    "no key set": {"body": b"[]"},
    "too much": {"body": FIRST + b" " * MAX_BYTES},
    "compressed": {"body": gzip.compress(BOTH), "headers": {"Content-Encoding": "gzip"}},
    "a redirect to another scheme": {
        "status": 302, "headers": {"Location": "https://127.0.0.1:1/jwks.json"},
    },
    "a redirect to a file": {"status": 302, "headers": {"Location": "file:///etc/passwd"}},
    "a redirect to nowhere": {"status": 302},
    "a redirect to itself": {"status": 307, "headers": {"Location": "/jwks.json"}},
}  # fmt: skip


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD)
async def test_an_answer_without_keys_is_a_failure(answer: dict[str, Any]) -> None:
    async with key_server(FIRST) as server, keys(server) as it:
        for name, value in answer.items():
            setattr(server, name, value)
        it.clock.pass_seconds(300)
        await it.source.prepare()

        assert it.knows(0)
        assert it.source.revision == 1
        assert server.asked <= 1 + 4
        it.clock.pass_seconds(600)
        with pytest.raises(KeysUnavailable):
            await it.source.prepare()


async def test_a_redirect_within_the_scheme_is_followed() -> None:
    async with key_server(FIRST) as target, key_server(b"") as server:
        server.status, server.headers = 302, {"Location": target.url}
        async with keys(server) as it:
            assert it.knows(0)


async def test_redirects_take_no_more_time_than_one_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jwks_fetch, "TIMEOUT_SECONDS", 0.2)
    async with key_server(FIRST) as server:
        server.status, server.headers = 307, {"Location": "/jwks.json"}
        server.thinks_seconds = 0.12
        async with keys(server):
            assert server.asked <= 2


async def test_a_log_line_holds_no_secret_of_an_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with key_server(FIRST) as server:
        server.status, server.headers = 302, {"Location": "http://a:99999/?token=hunter2"}
        with caplog.at_level(logging.WARNING, "millstream"):
            async with keys(server):
                pass
    (record,) = caplog.records
    fields = record.__dict__["millstream_fields"]
    assert "token=***" in fields["reason"]
    assert "hunter2" not in str(fields)


async def test_closing_ends_a_fetch_that_is_under_way() -> None:
    async with key_server(FIRST) as server, keys(server) as it:
        server.open.clear()
        server.arrived.clear()
        it.clock.pass_seconds(300)
        waiting = asyncio.create_task(it.source.prepare())
        await server.arrived.wait()

        await it.source.close()

        await waiting  # the old keys are still allowed
