"""Which API keys hold now."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import pytest

from millstream.errors import ConfigError, NotAuthenticated
from millstream.identity.api_keys import new_key
from millstream.identity.key_file import changing
from millstream.identity.key_ring import KeyRing
from millstream.identity.principal import Principal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.jsonl"


def add(path: Path, **fields: object) -> str:
    with changing(path) as keys:
        text, kept = new_key(keys, tenant="acme", now=1)
        keys[kept.prefix] = msgspec.structs.replace(kept, **fields)
    return text


def revoke(path: Path, text: str) -> None:
    with changing(path) as keys:
        keys[text[:11]] = msgspec.structs.replace(keys[text[:11]], revoked_at=2)


def refusal(ring: KeyRing, text: str) -> NotAuthenticated:
    with pytest.raises(NotAuthenticated) as raised:
        ring.authenticate(text)
    return raised.value


def test_a_key_tells_all_that_is_kept_of_it(path: Path) -> None:
    text = add(path, role="ci", scopes=("chat:create",), expires_at=100)
    assert KeyRing(path, wall_clock=lambda: 99.0).authenticate(text) == Principal(
        "key", text[:11], "acme", "ci", ("chat:create",), 100
    )


def test_the_client_learns_of_no_difference_and_the_log_of_each(path: Path) -> None:
    held, revoked, expired = add(path), add(path), add(path, expires_at=10)
    revoke(path, revoked)
    ring = KeyRing(path, wall_clock=lambda: 10.0)
    ring.authenticate(held)
    guessed = held[:12] + "x" * 43
    unknown = "ms_00000000_" + "x" * 43
    refusals = [refusal(ring, text) for text in (revoked, expired, guessed, unknown, "ms_")]
    assert [error.reason for error in refusals] == [
        "revoked",
        "expired",
        "unknown_key",
        "unknown_key",
        "malformed",
    ]
    assert len({str(error) for error in refusals}) == 1
    assert refusals[0].subject == revoked[:11]
    assert all(revoked[12:] not in repr(vars(error)) for error in refusals)


def test_a_revoked_key_whose_secret_is_guessed_tells_nothing_of_it(path: Path) -> None:
    text = add(path)
    revoke(path, text)
    assert refusal(KeyRing(path), text[:12] + "x" * 43).reason == "unknown_key"


def test_changes_hold_from_the_next_request_on(path: Path) -> None:
    first = add(path)
    ring = KeyRing(path)
    ring.authenticate(first)
    second = add(path)
    ring.authenticate(second)
    revoke(path, first)
    assert refusal(ring, first).reason == "revoked"
    ring.authenticate(second)


def test_the_file_is_read_once_for_each_change(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = add(path)
    ring = KeyRing(path)
    add(path)
    with caplog.at_level(logging.INFO, "millstream"):
        for _ in range(3):
            ring.authenticate(text)
    assert [record.getMessage() for record in caplog.records] == ["api_keys_read"]


def test_a_broken_file_leaves_the_keys_as_they_were_and_says_so_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = add(path)
    good = path.read_bytes()
    ring = KeyRing(path)
    path.write_bytes(good + b"{\n")
    ring.authenticate(text)
    ring.authenticate(text)
    assert [record.getMessage() for record in caplog.records] == ["api_keys_not_read"]
    path.write_bytes(good + b"\n\n")
    revoke(path, text)
    assert refusal(ring, text).reason == "revoked"


def test_a_file_that_cannot_be_read_for_a_while_is_read_as_soon_as_it_can(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = add(path)
    ring = KeyRing(path)
    revoke(path, text)

    def exhausted(_path: Path) -> bytes:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", exhausted)
        ring.authenticate(text)
        ring.authenticate(text)
    assert [record.getMessage() for record in caplog.records] == ["api_keys_not_read"]
    assert refusal(ring, text).reason == "revoked"


def test_without_its_file_no_key_holds_until_it_is_back(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = add(path)
    ring = KeyRing(path)
    content = path.read_bytes()
    path.unlink()
    assert refusal(ring, text).reason == "unknown_key"
    assert [record.getMessage() for record in caplog.records] == ["api_keys_gone"]
    path.write_bytes(content)
    ring.authenticate(text)


def test_a_ring_without_a_file_does_not_come_to_be(path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        KeyRing(path)
