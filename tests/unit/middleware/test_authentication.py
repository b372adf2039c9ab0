"""Nobody passes whose credential does not hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millstream.errors import KeysUnavailable
from millstream.identity.api_keys import ApiKey, new_key
from millstream.identity.authenticator import Authenticator
from millstream.identity.key_file import changing
from millstream.identity.key_ring import KeyRing
from millstream.identity.principal import Principal
from millstream.middleware import AuthenticationMiddleware
from tests.unit.identity.configured import required, settings
from tests.unit.middleware.witnesses import Trail


class Inner:
    """The app that is guarded."""

    def __init__(self) -> None:
        self.states: list[dict[str, Any] | None] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.states.append(scope.get("state"))
        await send({"type": "served"})


async def never_read() -> Message:
    raise AssertionError("a body was asked for")


class Guarded:
    """The middleware around an app, and what comes of requests."""

    def __init__(self, path: Path, **auth: object) -> None:
        path.touch()
        self.path, self.inner, self.audit = path, Inner(), Trail()
        configured = required(**auth)
        authenticator = Authenticator(lambda: configured, keys=KeyRing(path))
        self.app = AuthenticationMiddleware(self.inner, authenticator, audit=self.audit)

    def add(self, tenant: str = "acme", **fields: Any) -> str:
        with changing(self.path) as keys:
            text, kept = new_key(keys, tenant=tenant, now=1, **fields)
            keys[kept.prefix] = kept
        return text

    def revoke(self, text: str) -> None:
        with changing(self.path) as keys:
            old = keys[text[:11]]
            keys[text[:11]] = ApiKey(**{**_fields(old), "revoked_at": 2})

    async def ask(self, *credentials: bytes, **scope: object) -> list[Message]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"authorization", value) for value in credentials]
        asked = {"type": "http", "method": "POST", "path": "/v1/x", "headers": headers, **scope}
        await self.app(asked, never_read, send)
        return sent


def _fields(key: ApiKey) -> dict[str, Any]:
    return {name: getattr(key, name) for name in key.__struct_fields__}


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path / "keys.jsonl")


def bearer(text: str) -> bytes:
    return f"Bearer {text}".encode()


SERVED = [{"type": "served"}]


async def test_who_stands_further_in_may_be_put_around_refusals(tmp_path: Path) -> None:
    seen: list[str] = []

    def watching(app: ASGIApp) -> ASGIApp:
        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            async def told(message: Message) -> None:
                seen.append(message["type"])
                await send(message)

            await app(scope, receive, told)

        return watched

    guarded = Guarded(tmp_path / "keys.jsonl")
    guarded.app = AuthenticationMiddleware(
        guarded.inner, guarded.app._authenticator, refusals=watching
    )
    assert await guarded.ask(bearer(guarded.add())) == SERVED
    assert seen == []
    (start, _) = await guarded.ask()
    assert start["status"] == 401
    assert seen == ["http.response.start", "http.response.body"]


async def test_a_key_that_holds_is_known_to_those_inside(guarded: Guarded) -> None:
    text = guarded.add(role="r", scopes=("chat:create",))
    assert await guarded.ask(bearer(text), state={"request_id": "mine"}) == SERVED
    (state,) = guarded.inner.states
    assert state is not None
    assert state.pop("principal").subject == text[:11]
    assert state == {"request_id": "mine", "tenant": "acme", "scopes": {"chat:create"}}
    assert guarded.audit.present == []


async def test_without_a_credential_the_answer_asks_for_one(guarded: Guarded) -> None:
    start, body = await guarded.ask()
    assert start["status"] == 401
    headers = dict(start["headers"])
    assert headers[b"www-authenticate"] == b'Bearer realm="millstream"'
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"content-length"] == b"%d" % len(body["body"])
    assert headers[b"cache-control"] == b"no-store"
    error = json.loads(body["body"])["error"]
    assert (error["type"], error["code"], error["param"]) == (
        "invalid_request_error",
        "invalid_credential",
        None,
    )
    assert "Bearer" in error["message"]
    assert guarded.inner.states == []


async def test_one_that_does_not_hold_is_called_invalid(guarded: Guarded) -> None:
    start, _ = await guarded.ask(b"Bearer nonsense")
    assert start["status"] == 401
    assert dict(start["headers"])[b"www-authenticate"] == (
        b'Bearer realm="millstream", error="invalid_token"'
    )


async def test_nothing_tells_keys_that_are_revoked_from_keys_that_never_were(
    guarded: Guarded,
) -> None:
    revoked = guarded.add()
    guarded.revoke(revoked)
    unknown = "ms_00000000_" + "x" * 43
    answers = [await guarded.ask(bearer(text)) for text in (revoked, unknown, revoked[:-1])]
    assert answers[0] == answers[1] == answers[2]
    assert [record["reason"] for record in guarded.audit.present] == [
        "revoked",
        "unknown_key",
        "malformed",
    ]
    assert revoked[12:] not in str(guarded.audit.present)


async def test_nothing_tells_paths_that_are_there_from_others(guarded: Guarded) -> None:
    assert await guarded.ask(path="/v1/models") == await guarded.ask(path="/nothing")


async def test_a_revocation_holds_from_the_next_request_on(guarded: Guarded) -> None:
    text = guarded.add()
    assert await guarded.ask(bearer(text)) == SERVED
    guarded.revoke(text)
    assert (await guarded.ask(bearer(text)))[0]["status"] == 401


async def test_an_unknown_tenant_is_403_and_no_scope_would_help(guarded: Guarded) -> None:
    start, body = await guarded.ask(bearer(guarded.add("gone")))
    assert start["status"] == 403
    assert b"www-authenticate" not in dict(start["headers"])
    assert json.loads(body["body"])["error"]["code"] == "unknown_tenant"


async def test_refusals_are_recorded_without_what_was_sent(guarded: Guarded) -> None:
    text = guarded.add("gone")
    client = ("192.0.2.7", 1)
    await guarded.ask(b"Bearer hunter2", client=client, path="/v1/streams/secret")
    await guarded.ask(bearer(text), client=client, state={"request_id": "mine"})
    assert guarded.audit.present == [
        {"event": "not_authenticated", "reason": "unknown_kind", "client": "192.0.2.7"},
        {
            "event": "not_allowed",
            "reason": "unknown_tenant",
            "client": "192.0.2.7",
            "subject": text[:11],
            "request_id": "mine",
        },
    ]


async def test_scopes_that_a_role_takes_away_are_recorded(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path / "keys.jsonl", roles={"mobile": ["read:*"]})
    text = guarded.add(role="mobile", scopes=("delete:post", "read:a", "admin:config"))
    assert await guarded.ask(bearer(text)) == SERVED
    assert guarded.audit.present == [
        {
            "event": "scopes_dropped",
            "role": "mobile",
            "dropped": "admin:config delete:post",
            "tenant": "acme",
            "subject": text[:11],
        }
    ]
    (state,) = guarded.inner.states
    assert state is not None
    assert state["scopes"] == {"read:a"}


async def test_while_tokens_cannot_be_checked_it_is_nobodys_fault_but_the_servers() -> None:
    class Away:
        async def start(self) -> None: ...

        async def close(self) -> None: ...

        async def authenticate(self, token: str) -> Principal:
            raise KeysUnavailable("The keys cannot be had.")

    off = Off()
    configured = required()
    off.app = AuthenticationMiddleware(
        off.inner, Authenticator(lambda: configured, tokens=Away()), audit=off.audit
    )
    start, body = await off.ask(b"Bearer token")
    assert start["status"] == 503
    assert dict(start["headers"])[b"retry-after"] == b"5"
    error = json.loads(body["body"])["error"]
    assert (error["type"], error["code"]) == ("server_error", "keys_unavailable")
    assert off.audit.present == [{"event": "not_authenticated", "reason": "keys_unavailable"}]
    assert off.inner.states == []


async def test_a_head_request_is_told_the_length_alone(guarded: Guarded) -> None:
    start, body = await guarded.ask(method="HEAD")
    assert start == (await guarded.ask(method="GET"))[0]
    assert (body["body"], body["more_body"]) == (b"", False)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_need_no_credential(guarded: Guarded, path: str) -> None:
    assert await guarded.ask(path=path) == SERVED
    assert guarded.inner.states == [None]


@pytest.mark.parametrize(
    ("root_path", "path", "is_open"),
    [
        ("/api", "/api/healthz", True),  # as ASGI has it
        ("/api", "/healthz", True),  # a proxy has taken the prefix away
        ("/api", "/apihealthz", False),
        ("/api", "/api/api/healthz", False),
        ("/healthz", "/healthz", False),  # routes see an empty path
        ("/healthz", "/healthz/healthz", True),
        ("/heal", "/healthz", True),
    ],
)
async def test_probes_stand_where_routes_see_them(
    guarded: Guarded, root_path: str, path: str, is_open: bool
) -> None:
    sent = await guarded.ask(path=path, root_path=root_path)
    assert (sent == SERVED) is is_open


@pytest.mark.parametrize("path", ["/healthz/", "/HEALTHZ", "//healthz", "/healthz/../v1/x", ""])
async def test_what_only_resembles_a_probe_needs_one(guarded: Guarded, path: str) -> None:
    assert (await guarded.ask(path=path))[0]["status"] == 401


async def test_a_web_socket_without_a_credential_is_closed(guarded: Guarded) -> None:
    assert await guarded.ask(type="websocket") == [
        {"type": "websocket.close", "code": 1008, "reason": "invalid_credential"}
    ]


async def test_a_web_socket_with_one_is_served(guarded: Guarded) -> None:
    assert await guarded.ask(bearer(guarded.add()), type="websocket") == SERVED


async def test_the_lifespan_passes_untouched(guarded: Guarded) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await guarded.app({"type": "lifespan"}, never_read, send)
    assert sent == SERVED
    assert guarded.inner.states == [None]


class Off(Guarded):
    """The same while authentication is off."""

    def __init__(self) -> None:
        self.inner, self.audit = Inner(), Trail()
        configured = settings()
        self.app = AuthenticationMiddleware(self.inner, Authenticator(lambda: configured))


async def test_while_it_is_off_everybody_may_everything() -> None:
    off = Off()
    assert await off.ask(b"Bearer none") == SERVED
    (state,) = off.inner.states
    assert state is not None
    assert (state["tenant"], state["scopes"]) == ("default", {"*"})
    assert state["principal"].kind == "anonymous"


async def test_while_it_is_off_what_an_outer_app_has_found_stands() -> None:
    off = Off()
    found = {"tenant": "theirs", "scopes": frozenset({"models:read"})}
    await off.ask(state=dict(found))
    assert off.inner.states == [found]


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    return Guarded(tmp_path_factory.mktemp("keys") / "keys.jsonl", tenant_from=["key", "header"])


HEADERS = st.lists(
    st.tuples(
        st.sampled_from([b"authorization", b"x-tenant-id", b"host", b""]),
        st.one_of(
            st.binary(max_size=200),
            st.builds(bytes.__add__, st.just(b"Bearer ms_"), st.binary(max_size=60)),
            st.just(b"Bearer " + b"\x00" * 102_400),
            st.just(b"Bearer " + b"a." * 51_200),
        ),
    ),
    max_size=4,
)


@given(HEADERS)
async def test_no_headers_get_past_it_or_break_it(
    fuzzed: Guarded, headers: list[tuple[bytes, bytes]]
) -> None:
    start, body = await fuzzed.ask(headers=headers)
    assert start["status"] == 401
    assert json.loads(body["body"])["error"]["code"] == "invalid_credential"
    assert fuzzed.inner.states == []
