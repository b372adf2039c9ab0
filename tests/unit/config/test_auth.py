"""What must hold for `[auth]`."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.config import load_settings
from millstream.errors import ConfigError

KEYS = 'mode = "required"\nkeys_file = "k"\n'
JWT = 'jwt = { algorithms = ["HS256"], secret_env = "S" }\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "given.toml"


def problem(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_settings(path, environ={})
    return str(raised.value)


@pytest.mark.parametrize(
    ("sources", "name"),
    [
        ('["header", "key"]', "key"),
        ('["subdomain", "header", "key"]', "key"),
        ('["header"]', "key"),
        ('["jwt"]', "key"),
        ('["jwt", "header", "key"]', "key"),
    ],
)
def test_no_header_may_be_trusted_before_a_credential(path: Path, sources: str, name: str) -> None:
    text = f"[auth]\n{KEYS}base_domain = 'a.b'\ntenant_from = {sources}\n"
    assert f"`tenant_from` must have `{name}` before `header` and `subdomain`" in problem(
        path, text
    )


def test_every_kind_of_credential_that_is_accepted_is_asked_first(path: Path) -> None:
    text = f'[auth]\n{KEYS}{JWT}tenant_from = ["key", "header", "jwt"]\n'
    assert "must have `jwt` before" in problem(path, text)
    path.write_text(text.replace('"key", "header", "jwt"', '"key", "jwt", "header"'))
    assert load_settings(path, environ={}).auth.tenant_from == ("key", "jwt", "header")


def test_without_authentication_a_header_needs_no_credential_before_it(path: Path) -> None:
    path.write_text('[auth]\ntenant_from = ["header"]\n')
    assert load_settings(path, environ={}).auth.tenant_from == ("header",)


@pytest.mark.parametrize(
    "name",
    ["https://example.com", "example.com:80", ".example.com", "a..b", "", "a b", "é" * 80, "*.a"],
)
def test_a_base_domain_that_no_host_could_end_with_is_a_mistake(path: Path, name: str) -> None:
    text = f'[auth]\nbase_domain = "{name}"\n'
    assert "auth.base_domain" in problem(path, text)


@pytest.mark.parametrize(
    ("written", "met"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("bücher.de", "xn--bcher-kva.de"),
    ],
)
def test_a_base_domain_is_kept_as_a_host_has_it(path: Path, written: str, met: str) -> None:
    path.write_text(f'[auth]\nbase_domain = "{written}"\n')
    assert load_settings(path, environ={}).auth.base_domain == met


def test_a_default_tenant_has_to_be_there(path: Path) -> None:
    text = '[auth]\ndefault_tenant = "acne"\n[tenants.acme]\n'
    assert "auth.default_tenant: there is no tenant `acne`; did you mean `acme`?" in problem(
        path, text
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org", "10.0.0.1"])
def test_without_authentication_only_this_machine_is_served(path: Path, host: str) -> None:
    told = problem(path, f'[server]\nhost = "{host}"\n')
    assert f"server.host: {host} is not a loopback address" in told
    assert 'auth.mode is "off"' in told
    for auth in ("allow_public = true\n", KEYS):
        path.write_text(f'[server]\nhost = "{host}"\n[auth]\n{auth}')
        assert load_settings(path, environ={}).server.host == host
