"""From the head of a request to who sent it, for whom, and what they may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.config import Settings
from millstream.errors import NotAllowed, NotAuthenticated
from millstream.identity.api_keys import new_key
from millstream.identity.authenticator import Authenticator, Identified
from millstream.identity.key_file import changing
from millstream.identity.key_ring import KeyRing
from millstream.identity.principal import ANONYMOUS, Principal
from tests.unit.identity.configured import required, settings


class Tokens:
    """Takes one token, and remembers what it was asked and told."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def start(self) -> None:
        self.calls.append("start")

    async def close(self) -> None:
        self.calls.append("close")

    async def authenticate(self, token: str) -> Principal:
        self.calls.append(token)
        if token != "good":
            raise NotAuthenticated("no", reason="signature")
        return Principal("jwt", "ann", "acme", "mobile", ("chat:create", "admin:config"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "keys.jsonl").touch()
    return tmp_path / "keys.jsonl"


def add(path: Path, tenant: str = "acme") -> str:
    with changing(path) as keys:
        text, kept = new_key(keys, tenant=tenant, now=1, role="mobile")
        keys[kept.prefix] = kept
    return text


async def identify(authenticator: Authenticator, *values: str) -> Identified:
    headers = [(b"authorization", value.encode()) for value in values]
    return await authenticator.authenticate({"type": "http", "headers": headers})


async def reason(authenticator: Authenticator, *values: str) -> str:
    with pytest.raises(NotAuthenticated) as raised:
        await identify(authenticator, *values)
    return raised.value.reason


async def test_a_key_and_a_token_are_told_apart_by_the_keys_mark(path: Path) -> None:
    tokens = Tokens()
    authenticator = Authenticator(required, keys=KeyRing(path), tokens=tokens)
    text = add(path)
    assert (await identify(authenticator, f"Bearer {text}")).principal.kind == "key"
    assert tokens.calls == []
    assert (await identify(authenticator, "Bearer good")).principal.kind == "jwt"
    assert tokens.calls == ["good"]
    assert await reason(authenticator, "Bearer ms_good") == "malformed"
    assert tokens.calls == ["good"]


async def test_scopes_are_trimmed_by_the_roles_that_are_in_force() -> None:
    roles: dict[str, list[str]] = {"mobile": ["chat:*"]}
    authenticator = Authenticator(lambda: required(roles=roles), tokens=Tokens())
    identified = await identify(authenticator, "Bearer good")
    assert identified.tenant == "acme"
    assert identified.scopes == {"chat:create"}
    assert identified.dropped == {"admin:config"}
    roles["mobile"] = ["admin:config"]
    assert (await identify(authenticator, "Bearer good")).scopes == {"admin:config"}


async def test_a_credential_of_a_kind_that_is_not_accepted_is_refused(path: Path) -> None:
    keys_alone = Authenticator(required, keys=KeyRing(path))
    assert await reason(keys_alone, "Bearer good") == "unknown_kind"
    tokens = Tokens()
    tokens_alone = Authenticator(required, tokens=tokens)
    assert await reason(tokens_alone, f"Bearer {add(path)}") == "signature"


async def test_a_request_without_a_credential_is_refused(path: Path) -> None:
    assert await reason(Authenticator(required, keys=KeyRing(path))) == "missing"


async def test_the_refusal_of_a_tenant_tells_the_log_whose_key_it_was(path: Path) -> None:
    authenticator = Authenticator(required, keys=KeyRing(path))
    text = add(path, "gone")
    with pytest.raises(NotAllowed) as raised:
        await identify(authenticator, f"Bearer {text}")
    assert raised.value.subject == text[:11]


async def test_while_authentication_is_off_no_credential_is_looked_at() -> None:
    authenticator = Authenticator(settings)
    for values in ((), ("Bearer x", "Bearer y"), ("\x00",)):
        assert await identify(authenticator, *values) == Identified(
            ANONYMOUS, "default", frozenset({"*"})
        )


async def test_it_starts_and_closes_what_checks_tokens() -> None:
    tokens = Tokens()
    for authenticator in (Authenticator(required, tokens=tokens), Authenticator(settings)):
        await authenticator.start()
        await authenticator.close()
    assert tokens.calls == ["start", "close"]


async def test_a_mode_that_changes_while_running_does_not_open_the_door() -> None:
    current: list[Settings] = [required()]
    authenticator = Authenticator(lambda: current[0], tokens=Tokens())
    current[0] = settings()
    assert await reason(authenticator) == "missing"
