"""Who holds a token, with keys that rotate while requests come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from millstream.config.auth import ClaimSettings, JwtSettings
from millstream.errors import ConfigError, KeysUnavailable, NotAuthenticated
from millstream.identity.jwt import JwtAuthenticator
from millstream.identity.principal import Principal
from tests.clock import SECOND, Clock
from tests.reference.jwt_tokens import (
    CLAIMS,
    NOW,
    SECRET,
    key_set,
    public_jwk,
    signed,
)
from tests.unit.identity.key_server import key_server

ISSUED = {"issuer": "https://id.example", "audience": "millstream"}


@asynccontextmanager
async def authenticator(
    *, clock: Clock | None = None, claims: ClaimSettings | None = None, **settings: Any
) -> AsyncIterator[JwtAuthenticator]:
    made = JwtAuthenticator(
        JwtSettings(**settings),
        claims,
        clock=clock or Clock(),
        wall_clock=Clock(NOW * SECOND),
        environ={"SECRET": SECRET.decode()},
    )
    await made.start()
    try:
        yield made
    finally:
        await made.close()


def shared(**settings: Any) -> Any:
    return authenticator(algorithms=["HS256"], secret_env="SECRET", **settings)


async def refusal(made: JwtAuthenticator, token: str) -> NotAuthenticated:
    with pytest.raises(NotAuthenticated) as refused:
        await made.authenticate(token)
    return refused.value


async def test_the_holder_is_told_by_the_claims() -> None:
    async with shared(**ISSUED) as made:
        found = await made.authenticate(signed("HS256"))

    assert found == Principal(
        kind="jwt",
        subject="user-1",
        tenant="acme",
        role="mobile",
        scopes=("chat:create", "streams:read"),
        expires_at=float(NOW + 60),
    )


async def test_claims_have_the_names_of_the_settings() -> None:
    names = ClaimSettings(tenant="org.id", role="org.role", scopes="scp")
    claims = {"sub": "s", "exp": NOW + 1, "org": {"id": "o", "role": "r"}, "scp": ["a:b"]}
    async with shared(claims=names) as made:
        found = await made.authenticate(signed("HS256", claims))

    assert (found.tenant, found.role, found.scopes) == ("o", "r", ("a:b",))


async def test_the_reason_is_exact_and_the_message_is_not() -> None:
    wrong = {
        "expired": signed("HS256", {**CLAIMS, "exp": NOW - 30}),
        "not_yet_valid": signed("HS256", {**CLAIMS, "nbf": NOW + 31}),
        "issuer": signed("HS256", {**CLAIMS, "iss": "other"}),
        "audience": signed("HS256", {**CLAIMS, "aud": "other"}),
        "claim": signed("HS256", {**CLAIMS, "scope": 7}),
        "signature": signed("HS256")[:-4] + "AAAA",
        "malformed": "x",
        "algorithm": signed("RS256"),
    }
    messages = set()
    async with shared(**ISSUED) as made:
        for reason, token in wrong.items():
            refused = await refusal(made, token)
            assert refused.reason == reason
            messages.add(str(refused))

    assert messages == {"The token has expired", "The token does not hold"}


async def test_leeway_is_that_of_the_settings() -> None:
    late = signed("HS256", {**CLAIMS, "exp": NOW - 100})
    async with shared(leeway_seconds=101) as made:
        assert await made.authenticate(late)
    async with shared(leeway_seconds=100) as made:
        assert (await refusal(made, late)).reason == "expired"


def test_names_that_lie_in_one_another_are_an_error() -> None:
    with pytest.raises(ConfigError, match=r"auth\.claims: .*inside another"):
        JwtAuthenticator(
            JwtSettings(algorithms=("HS256",), secret_env="SECRET"),
            ClaimSettings(tenant="org", role="org.role"),
        )


async def test_a_missing_secret_is_an_error_at_the_start() -> None:
    made = JwtAuthenticator(JwtSettings(algorithms=("HS256",), secret_env="OTHER"), environ={})

    with pytest.raises(ConfigError, match="OTHER"):
        await made.start()


async def test_keys_may_lie_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(key_set(public_jwk("EdDSA")))
    async with authenticator(algorithms=["EdDSA"], jwks_file=str(path)) as made:
        assert (await made.authenticate(signed("EdDSA"))).subject == "user-1"
        assert (await refusal(made, signed("EdDSA", number=1, kid="k1"))).reason == "unknown_key"

        path.write_bytes(key_set(public_jwk("EdDSA"), public_jwk("EdDSA", 1)))
        assert (await made.authenticate(signed("EdDSA", number=1, kid="k1"))).subject == "user-1"


async def test_keys_rotate_without_a_refused_token_of_either() -> None:
    """An issuer adds a key, signs with it at once, and takes the old one back later."""
    old, new = public_jwk("RS256", 0), public_jwk("RS256", 1)
    before, after = signed(number=0, kid="k0"), signed(number=1, kid="k1")
    clock = Clock()
    async with (
        key_server(key_set(old)) as server,
        authenticator(clock=clock, algorithms=["RS256"], jwks_url=server.url) as made,
    ):
        assert await made.authenticate(before)
        assert (await refusal(made, after)).reason == "unknown_key"

        server.body = key_set(old, new)
        clock.pass_seconds(5)
        assert await made.authenticate(after)
        assert await made.authenticate(before)
        assert server.asked == 2

        server.body = key_set(new)
        clock.pass_seconds(299)
        assert await made.authenticate(before)
        clock.pass_seconds(1)
        assert (await refusal(made, before)).reason == "unknown_key"
        assert await made.authenticate(after)

        await server.down()
        clock.pass_seconds(300)
        assert await made.authenticate(after)
        clock.pass_seconds(86_400)
        with pytest.raises(KeysUnavailable):
            await made.authenticate(after)


async def test_a_reused_name_is_that_of_the_new_key_after_a_renewal() -> None:
    clock = Clock()
    async with (
        key_server(key_set(public_jwk("RS256", 0, kid="k"))) as server,
        authenticator(clock=clock, algorithms=["RS256"], jwks_url=server.url) as made,
    ):
        server.body = key_set(public_jwk("RS256", 1, kid="k"))
        clock.pass_seconds(300)

        assert await made.authenticate(signed(number=1, kid="k"))
        assert (await refusal(made, signed(number=0, kid="k"))).reason == "signature"


async def test_invented_names_cost_the_issuer_one_fetch_and_valid_tokens_nothing() -> None:
    clock, valid = Clock(), signed()
    async with (
        key_server(key_set(public_jwk("RS256"))) as server,
        authenticator(clock=clock, algorithms=["RS256"], jwks_url=server.url) as made,
    ):
        clock.pass_seconds(60)
        invented = [refusal(made, signed(kid=f"x{number}")) for number in range(200)]
        accepted = [made.authenticate(valid) for _ in range(200)]
        holders, refusals = await asyncio.gather(
            asyncio.gather(*accepted), asyncio.gather(*invented)
        )

        assert {holder.subject for holder in holders} == {"user-1"}
        assert {refused.reason for refused in refusals} == {"unknown_key"}
        assert server.asked == 2
