"""`millstream keys`."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from millstream.cli import main
from millstream.errors import NotAuthenticated
from millstream.identity.key_file import read_keys
from millstream.identity.key_ring import KeyRing

CONFIG = """
[auth]
mode = "required"
keys_file = "keys.jsonl"
[tenants.acme]
"""
ROLES = '[auth.roles]\nmobile = ["read:*", "chat:create"]\n'
FILE = Path("keys.jsonl")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MILLSTREAM_CONFIG", raising=False)
    Path("millstream.toml").write_text(CONFIG)


def keys(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["keys", *arguments])


def made(*arguments: str) -> str:
    result = keys("create", "--tenant", "acme", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.rstrip("\n")


def listed() -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads(keys("list", "--json").stdout)
    return rows


def test_a_key_is_printed_alone_and_holds() -> None:
    text = made()

    principal = KeyRing(FILE).authenticate(text)
    assert (principal.tenant, principal.role, principal.scopes) == ("acme", None, None)
    assert stat.S_IMODE(FILE.stat().st_mode) == 0o600


def test_the_secret_is_neither_kept_nor_shown_again() -> None:
    text = made()

    assert text[12:] not in FILE.read_text()
    assert text[12:] not in keys("list").output
    assert text[:11] in keys("list").stdout


def test_role_scopes_and_days_are_kept() -> None:
    Path("millstream.toml").write_text(CONFIG + ROLES)
    before = time.time()

    text = made("--role", "mobile", "--scope", "read:a", "--scope", "read:b", "--expires-days", "2")

    kept = read_keys(FILE)[text[:11]]
    assert (kept.role, kept.scopes) == ("mobile", ("read:a", "read:b"))
    assert kept.expires_at is not None
    assert 0 <= kept.expires_at - int(before) - 2 * 86_400 <= 60


def test_scopes_that_the_role_does_not_allow_are_warned_about() -> None:
    Path("millstream.toml").write_text(CONFIG + ROLES)

    arguments = ("--role", "mobile", "--scope", "read:a", "--scope", "admin:config")
    result = keys("create", "--tenant", "acme", *arguments)

    assert result.exit_code == 0
    assert "the role `mobile` does not allow, or narrows: admin:config\n" in result.stderr


def test_the_list_tells_which_hold() -> None:
    first, second = made(), made("--scope", "chat:create")
    keys("revoke", first[:11])

    rows = {row["prefix"]: row for row in listed()}
    assert rows[first[:11]]["state"] == "revoked"
    assert rows[second[:11]]["state"] == "active"
    assert rows[second[:11]]["scopes"] == "chat:create"
    lines = keys("list").stdout.splitlines()
    assert lines[0].split() == [
        "prefix", "state", "tenant", "role", "scopes", "created", "expires",
    ]  # fmt: skip
    assert len(lines) == 3


def test_without_a_file_the_list_is_empty() -> None:
    assert listed() == []


@pytest.mark.parametrize("start", [0, 3])
def test_a_key_is_revoked_by_its_prefix(start: int) -> None:
    text, other = made(), made()

    result = keys("revoke", text[start:11])

    assert (result.exit_code, result.stdout) == (0, f"{text[:11]}: revoked\n")
    ring = KeyRing(FILE)
    with pytest.raises(NotAuthenticated):
        ring.authenticate(text)
    ring.authenticate(other)


def test_it_may_be_revoked_again_and_keeps_its_moment() -> None:
    text = made()
    keys("revoke", text[:11])
    before = read_keys(FILE)[text[:11]]

    assert keys("revoke", text[:11]).exit_code == 0
    assert read_keys(FILE)[text[:11]] == before


@pytest.mark.parametrize("name", ["ms_00000000", "x" * 200, ""])
def test_a_key_that_is_not_there_cannot_be_revoked(name: str) -> None:
    made()
    before = FILE.read_bytes()

    result = keys("revoke", name)

    assert result.exit_code == 1
    assert "no key begins with" in result.stderr
    assert "x" * 12 not in result.stderr
    assert FILE.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--tenant", "acne"], "--tenant: there is no tenant `acne`; did you mean `acme`?"),
        (["--tenant", "acme"], "--role: is needed, since auth.roles is set; known are `mobile`"),
        (["--tenant", "acme", "--role", "mobil"], "--role: there is no role `mobil`; did you mean"),
        (
            ["--tenant", "acme", "--role", "mobile", "--scope", "openid connect"],
            "--scope: `openid connect` is no scope",
        ),
    ],
)
def test_a_key_that_could_never_be_used_is_not_made(arguments: list[str], problem: str) -> None:
    Path("millstream.toml").write_text(CONFIG + ROLES)

    result = keys("create", *arguments)

    assert result.exit_code == 1
    assert problem in result.stderr
    assert not FILE.exists()


def test_without_a_configured_file_it_says_which_setting_is_missing() -> None:
    Path("millstream.toml").write_text("[tenants.acme]\n")

    for arguments in (["create", "--tenant", "acme"], ["list"], ["revoke", "ms_00000000"]):
        result = keys(*arguments)
        assert result.exit_code == 1
        assert "auth.keys_file: is not set" in result.stderr
