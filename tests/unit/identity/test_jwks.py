"""Keys in a file, which is replaced, broken and taken away, and the secret of HS256."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millstream._core import JwtError, JwtVerifier
from millstream.errors import ConfigError
from millstream.identity.jwks import JwksFile, Secret
from tests.clock import Clock
from tests.reference.jwt_tokens import NOW, SECRET, key_set, public_jwk, signed

FIRST = key_set(public_jwk("ES256", 0))
BOTH = key_set(public_jwk("ES256", 0), public_jwk("ES256", 1))
SECOND = key_set(public_jwk("ES256", 1))


def replace(path: Path, text: bytes | None, *, mtime_ns: int | None = None) -> None:
    """As an editor does: another file takes the place of the old one at once; None leaves none."""
    if text is None:
        path.unlink()
        return
    other = path.with_suffix(".new")
    other.write_bytes(text)
    if mtime_ns is not None:
        os.utime(other, ns=(mtime_ns, mtime_ns))
    os.replace(other, path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "jwks.json"
    found.write_bytes(FIRST)
    return found


async def file_source(path: Path) -> tuple[JwksFile, JwtVerifier, Clock]:
    clock, verifier = Clock(), JwtVerifier(algorithms=["ES256"])
    source = JwksFile(str(path), verifier, clock=clock)
    await source.start()
    return source, verifier, clock


def knows(verifier: JwtVerifier, number: int) -> bool:
    try:
        return bool(verifier.verify(signed("ES256", number=number, kid=f"k{number}"), NOW))
    except JwtError:
        return False


async def test_a_file_is_read_again_when_it_has_changed(path: Path) -> None:
    source, verifier, clock = await file_source(path)
    replace(path, SECOND)
    clock.pass_seconds(0.9)
    await source.prepare()
    assert knows(verifier, 0)

    clock.pass_seconds(0.1)
    await source.prepare()

    assert not knows(verifier, 0)
    assert knows(verifier, 1)
    clock.pass_seconds(1)
    await source.prepare()
    assert source.revision == 2


async def test_a_file_of_the_same_length_and_time_is_told_by_its_inode(path: Path) -> None:
    source, verifier, clock = await file_source(path)
    assert len(SECOND) == len(FIRST)
    replace(path, SECOND, mtime_ns=os.stat(path).st_mtime_ns)
    clock.pass_seconds(1)
    await source.prepare()

    assert knows(verifier, 1)


async def test_an_unknown_key_looks_at_the_file_at_once(path: Path) -> None:
    source, verifier, _ = await file_source(path)
    assert not await source.changed_since(source.revision)
    replace(path, BOTH)

    assert await source.changed_since(source.revision)
    assert knows(verifier, 1)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", None])
async def test_a_file_that_is_broken_or_gone_leaves_the_keys_as_they_are(
    path: Path, text: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    source, verifier, clock = await file_source(path)
    replace(path, text)
    for _ in range(3):
        clock.pass_seconds(1)
        await source.prepare()

    assert knows(verifier, 0)
    assert [record.message for record in caplog.records] == ["jwks_file_broken"]
    replace(path, SECOND)
    clock.pass_seconds(1)
    await source.prepare()
    assert knows(verifier, 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "No such file"), (b"{", "no JSON Web Key Set"), (key_set(), "no usable key")],
)
async def test_a_file_without_keys_is_an_error_at_the_start(
    path: Path, text: bytes | None, why: str
) -> None:
    replace(path, text)

    with pytest.raises(ConfigError, match=why):
        await file_source(path)


async def test_keys_that_cannot_be_used_are_told(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    replace(path, key_set(public_jwk("ES256"), public_jwk("RS256")))

    await file_source(path)

    (record,) = caplog.records
    assert record.message == "jwks_key_left_out"


@pytest.mark.parametrize(
    ("environ", "why"),
    [({}, "SECRET is not set"), ({"SECRET": ""}, "at least 32"), ({"SECRET": "x" * 31}, "not 31")],
)
async def test_a_secret_that_is_missing_or_short_is_an_error(
    environ: dict[str, str], why: str
) -> None:
    source = Secret("SECRET", JwtVerifier(algorithms=["HS256"]), environ)

    with pytest.raises(ConfigError, match=why) as refused:
        await source.start()

    assert "x" * 31 not in str(refused.value)


async def test_a_secret_is_taken_from_the_environment() -> None:
    verifier = JwtVerifier(algorithms=["HS256"])
    source = Secret("SECRET", verifier, {"SECRET": SECRET.decode()})
    await source.start()
    await source.prepare()

    assert verifier.verify(signed("HS256"), NOW)
    assert not await source.changed_since(0)
