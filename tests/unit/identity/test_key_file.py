"""The file of API keys."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from millstream.errors import ConfigError
from millstream.identity.api_keys import new_key
from millstream.identity.key_file import changing, read_keys

LINE = b'{"prefix":"ms_abcdefgh","sha256":"' + b"0" * 64 + b'","tenant":"acme","created_at":1}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.jsonl"


def add(path: Path, tenant: str = "acme") -> str:
    with changing(path) as keys:
        text, kept = new_key(keys, tenant=tenant, now=1)
        keys[kept.prefix] = kept
    return text


def test_what_was_added_is_read_again(path: Path) -> None:
    for tenant in ("a", "b"):
        add(path, tenant)
    assert [key.tenant for key in read_keys(path).values()] == ["a", "b"]


def test_it_is_for_its_owner_alone_whatever_the_umask(path: Path) -> None:
    old = os.umask(0)
    try:
        add(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_whoever_may_read_it_still_may_after_a_change(path: Path) -> None:
    add(path)
    path.chmod(0o640)
    add(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(path)
    before = path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match=r"keys\.jsonl: cannot be written: No space left"):
        add(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["keys.jsonl"]


def test_an_exception_in_the_block_changes_nothing(path: Path) -> None:
    add(path)
    before = path.read_bytes()
    with pytest.raises(KeyError), changing(path) as keys:
        del keys["ms_00000000"]
    assert path.read_bytes() == before


def test_those_who_change_it_at_once_lose_nothing(path: Path) -> None:
    threads = [threading.Thread(target=lambda: [add(path) for _ in range(5)]) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_keys(path)) == 30


def test_a_link_goes_on_to_name_the_file(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere"
    real.mkdir()
    path.symlink_to(real / "keys.jsonl")
    add(path)
    assert path.is_symlink()
    assert len(read_keys(real / "keys.jsonl")) == 1


def test_empty_lines_are_no_keys(path: Path) -> None:
    path.write_bytes(b"\n" + LINE + b"  \n")
    assert list(read_keys(path)) == ["ms_abcdefgh"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "line 2: is not a key"),
        (b"[]", "line 2: is not a key"),
        (b'{"prefix":"ms_abcdefgh"}', "line 2: is not a key: .*sha256"),
        (LINE.replace(b"ms_abcdefgh", b"ms_ABCDEFGH"), "line 2: is not a key: prefix"),
        (LINE.replace(b"0" * 64, b"0" * 63), "line 2: is not a key: sha256"),
        (LINE.replace(b'"tenant"', b'"tenent"'), "line 2: is not a key"),
        (LINE.replace(b"1}", b'"1"}'), "line 2: is not a key"),
        (b"\xff\xfe", "line 2: is not a key"),
        (LINE, "line 2: ms_abcdefgh is there twice"),
    ],
)
def test_a_line_that_is_no_key_is_named_by_its_number(
    path: Path, line: bytes, problem: str
) -> None:
    path.write_bytes(LINE + line)
    with pytest.raises(ConfigError, match=problem):
        read_keys(path)


def test_a_file_that_is_not_there_says_so(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"keys\.jsonl: cannot be read: No such file"):
        read_keys(path)


def test_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written: No such file"):
        add(tmp_path / "none" / "keys.jsonl")
