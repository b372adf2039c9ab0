"""Keys, scopes and tenants on a real server, as its clients see them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import jwt
import openai
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.e2e.http1 import Connection
from tests.e2e.servers import ENGINE, MODEL, Server, millstream_command, serving
from tests.ports import free_port

CONFIG = (
    ENGINE
    + """
[auth]
mode = "required"
keys_file = "KEYS"
jwt = { algorithms = ["ES256"], jwks_file = "JWKS", issuer = "https://id.example", audience = "m" }
tenant_from = ["jwt", "key", "header"]

[auth.roles]
app = ["chat:create", "models:read", "streams:*", "durable:*"]
reader = ["models:read"]
watcher = ["metrics:read"]

[audit]
kind = "file"
path = "AUDIT"

[tenants.acme]
[tenants.other]
"""
)


@dataclass(frozen=True)
class Guarded:
    """A running server, and the commands that make and revoke its keys."""

    server: Server
    config: Path
    signer: ec.EllipticCurvePrivateKey

    def keys(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "millstream.cli", "keys", *arguments]
        done = subprocess.run(
            [*command, "--config", str(self.config)], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def key(self, role: str = "app", tenant: str = "acme") -> str:
        return self.keys("create", "--tenant", tenant, "--role", role)

    def token(self, **claims: object) -> str:
        held = {
            "sub": "ann",
            "iss": "https://id.example",
            "aud": "m",
            "exp": int(time.time()) + 600,
            "tenant": "acme",
            "role": "app",
            **claims,
        }
        return jwt.encode(held, self.signer, "ES256", {"kid": "one"})

    def client(self, key: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.server.url}/v1", api_key=key, max_retries=0)

    def ask(self, method: str, path: str, key: str, json: object = None) -> httpx.Response:
        headers = {"authorization": f"Bearer {key}"}
        url = f"{self.server.url}{path}"
        return httpx.request(method, url, headers=headers, json=json)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    config = folder / "millstream.toml"
    text = CONFIG.replace('"KEYS"', f'"{folder}/keys.jsonl"').replace("JWKS", f"{folder}/jwks.json")
    config.write_text(text.replace("AUDIT", f"{folder}/audit.jsonl"))
    (folder / "keys.jsonl").touch()
    signer = ec.generate_private_key(ec.SECP256R1())
    public = ECAlgorithm.to_jwk(signer.public_key(), as_dict=True)
    (folder / "jwks.json").write_text(json.dumps({"keys": [{**public, "kid": "one"}]}))
    port = free_port()
    with serving(millstream_command(port, config), port=port, folder=folder) as running:
        yield Guarded(running, config, signer)


def chat(client: openai.OpenAI) -> str:
    chunks = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        max_tokens=8,
        temperature=0,
        stream=True,
    )
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def test_openai_python_talks_with_an_api_key(guarded: Guarded) -> None:
    with guarded.client(guarded.key()) as client:
        assert chat(client)
        assert [model.id for model in client.models.list()] == [MODEL]


def test_openai_python_talks_with_an_access_token(guarded: Guarded) -> None:
    with guarded.client(guarded.token(scope="chat:create models:read admin:config")) as client:
        assert chat(client)
        assert client.models.list().data


@pytest.mark.parametrize(
    "claims", [{"exp": 1}, {"iss": "https://evil.example"}, {"aud": "other"}, {"nbf": 2**40}]
)
def test_a_token_that_does_not_hold_is_an_authentication_error(
    guarded: Guarded, claims: dict[str, object]
) -> None:
    token = guarded.token(**claims)
    with guarded.client(token) as client, pytest.raises(openai.AuthenticationError):
        client.models.list()


def test_a_tokens_role_and_tenant_bound_what_it_may(guarded: Guarded) -> None:
    for claims, code in (
        ({"role": "unknown", "scope": "*"}, "insufficient_scope"),
        ({"role": "reader", "scope": "chat:create"}, "insufficient_scope"),
        ({"tenant": "gone"}, "unknown_tenant"),
    ):
        with (
            guarded.client(guarded.token(**claims)) as client,
            pytest.raises(openai.PermissionDeniedError) as raised,
        ):
            chat(client)
        assert raised.value.code == code


def test_a_token_and_a_key_of_one_tenant_share_its_streams(guarded: Guarded) -> None:
    asked = {"model": MODEL, "prompt": "a", "max_tokens": 2, "resumable": True}
    made = guarded.ask("POST", "/v1/streams", guarded.token(), asked).headers["x-stream-id"]
    assert guarded.ask("GET", f"/v1/streams/{made}", guarded.key()).status_code == 200
    other = guarded.token(tenant="other")
    assert guarded.ask("GET", f"/v1/streams/{made}", other).status_code == 404


def test_a_wrong_key_is_an_authentication_error(guarded: Guarded) -> None:
    with guarded.client("sk-wrong") as client, pytest.raises(openai.AuthenticationError) as raised:
        chat(client)
    error = raised.value
    assert (error.status_code, error.code, error.type) == (
        401,
        "invalid_credential",
        "invalid_request_error",
    )
    assert error.response.headers["www-authenticate"].endswith('error="invalid_token"')
    assert error.response.headers["x-request-id"]


def test_a_scope_that_is_missing_is_a_permission_error_and_named(guarded: Guarded) -> None:
    with guarded.client(guarded.key("reader")) as client:
        assert client.models.list().data
        with pytest.raises(openai.PermissionDeniedError) as raised:
            chat(client)
    error = raised.value
    assert (error.status_code, error.code) == (403, "insufficient_scope")
    assert 'scope="chat:create"' in error.response.headers["www-authenticate"]


def test_a_key_that_is_revoked_while_the_server_runs_is_refused_at_once(guarded: Guarded) -> None:
    key, other = guarded.key(), guarded.key()
    assert guarded.ask("GET", "/v1/models", key).status_code == 200
    guarded.keys("revoke", key[:11])
    assert guarded.ask("GET", "/v1/models", key).status_code == 401
    assert guarded.ask("GET", "/v1/models", other).status_code == 200


def test_curl_is_refused_before_its_body_is_read(guarded: Guarded) -> None:
    command = [
        "curl", "--silent", "--show-error", "--max-time", "20", "--include", "--noproxy", "*",
        f"{guarded.server.url}/v1/chat/completions",
        "-H", "content-type: application/json", "-d", '{"model":"x"}',
    ]  # fmt: skip
    shown = subprocess.run(command, check=True, capture_output=True).stdout.decode()
    head, _, body = shown.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 401")
    assert 'www-authenticate: Bearer realm="millstream"\r\n' in head + "\r\n"
    assert '"code":"invalid_credential"' in body


def test_a_head_request_is_told_no_body(guarded: Guarded) -> None:
    refused = httpx.head(f"{guarded.server.url}/v1/models")
    assert refused.status_code == 401
    assert int(refused.headers["content-length"]) > 0
    assert refused.content == b""


def test_the_audit_trail_tells_who_was_refused_and_shows_no_secret(guarded: Guarded) -> None:
    key, narrow = (
        guarded.key(),
        guarded.keys(*("create", "--tenant", "acme", "--role", "reader"), *("--scope", "*")),
    )
    guarded.keys("revoke", key[:11])
    guarded.ask("GET", "/v1/models", key)
    guarded.ask("GET", "/v1/models", narrow)
    text = (guarded.config.parent / "audit.jsonl").read_text()
    records = [json.loads(line) for line in text.splitlines()]
    refused = [record for record in records if record.get("subject") == key[:11]]
    assert [(one["event"], one["reason"]) for one in refused] == [("not_authenticated", "revoked")]
    trimmed = [record for record in records if record.get("subject") == narrow[:11]]
    assert [(one["event"], one["dropped"]) for one in trimmed] == [("scopes_dropped", "*")]
    assert key[12:] not in text + guarded.server.log.read_text()


def test_probes_need_no_credential_and_metrics_do(guarded: Guarded) -> None:
    assert guarded.server.get("/healthz").status_code == 200
    assert guarded.server.get("/readyz").status_code == 200
    assert guarded.server.get("/metrics").status_code == 401
    key = guarded.key("watcher")
    assert guarded.ask("GET", "/metrics", key).status_code == 200
    command = [sys.executable, "-m", "millstream.cli", "engine", "status", "--json"]
    shown = subprocess.run(
        [*command, "--url", guarded.server.url],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "MILLSTREAM_CREDENTIAL": key},
    )
    assert '"local"' in shown.stdout


def test_what_one_tenant_makes_does_not_exist_for_another(guarded: Guarded) -> None:
    mine, theirs = guarded.key(), guarded.key(tenant="other")
    asked = {"model": MODEL, "prompt": "a", "max_tokens": 4, "resumable": True}
    stream = guarded.ask("POST", "/v1/streams", mine, json=asked).headers["x-stream-id"]
    response = guarded.ask(
        "POST", "/v1/responses", mine, json={"model": MODEL, "input": "a", "background": True}
    ).json()["id"]
    assert guarded.ask("PUT", "/v1/durable/a", mine).status_code == 201
    paths = [
        ("GET", f"/v1/streams/{stream}"),
        ("HEAD", f"/v1/streams/{stream}"),
        ("POST", f"/v1/streams/{stream}/cancel"),
        ("GET", f"/v1/responses/{response}"),
        ("POST", f"/v1/responses/{response}/cancel"),
        ("DELETE", f"/v1/responses/{response}"),
        ("GET", "/v1/durable/a"),
        ("DELETE", "/v1/durable/a"),
    ]
    for method, path in paths:
        assert guarded.ask(method, path, theirs).status_code == 404, path
    for method, path in paths:
        assert guarded.ask(method, path, mine).status_code < 300, path


def test_an_idempotency_key_is_its_tenants_own(guarded: Guarded) -> None:
    asked = {"model": MODEL, "prompt": "a", "max_tokens": 2}
    ids = []
    for tenant in ("acme", "other"):
        headers = {
            "authorization": f"Bearer {guarded.key(tenant=tenant)}",
            "idempotency-key": "one",
        }
        answer = httpx.post(
            f"{guarded.server.url}/v1/streams", json=asked, headers=headers, timeout=30
        )
        assert "idempotent-replayed" not in answer.headers
        ids.append(answer.headers["x-stream-id"])
    assert ids[0] != ids[1]


def test_a_header_does_not_choose_another_tenant_than_the_keys(guarded: Guarded) -> None:
    mine, theirs = guarded.key(), guarded.key(tenant="other")
    assert guarded.ask("PUT", "/v1/durable/mine", mine).status_code == 201
    headers = {"authorization": f"Bearer {theirs}", "x-tenant-id": "acme"}
    url = f"{guarded.server.url}/v1/durable/mine"
    assert httpx.get(url, headers=headers, timeout=120).status_code == 404


@pytest.mark.parametrize(
    "lines",
    [
        b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n",
        b"Authorization: Bearer \xff\xfe\r\n",
        b"Authorization:\r\n",
        b"Authorization: Bearer " + b"x" * 102_400 + b"\r\n",
    ],
)
def test_no_header_breaks_the_server(guarded: Guarded, lines: bytes) -> None:
    connection = Connection(guarded.server.port)
    with connection.socket:
        connection.socket.sendall(b"GET /v1/models HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n")
        assert connection.read_head() == 401
    assert guarded.server.get("/healthz").status_code == 200
