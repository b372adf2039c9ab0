"""The GGUF reader against files built here byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from millstream.engines.torch.gguf import GgufFile
from millstream.errors import ConfigError


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _entry(key: str, kind: int, value: bytes) -> bytes:
    return _string(key) + struct.pack("<I", kind) + value


def _array(kind: int, items: list[bytes]) -> bytes:
    return struct.pack("<IQ", kind, len(items)) + b"".join(items)


def _file(*, version: int = 3) -> bytes:
    entries = [
        _entry("name", 8, _string("wörd")),
        _entry("count", 4, struct.pack("<I", 7)),
        _entry("below", 5, struct.pack("<i", -3)),
        _entry("ratio", 6, struct.pack("<f", 0.5)),
        _entry("flag", 7, b"\x01"),
        _entry("words", 9, _array(8, [_string("a"), _string("")])),
        _entry("kinds", 9, _array(5, [struct.pack("<i", 3), struct.pack("<i", 1)])),
        _entry("general.alignment", 4, struct.pack("<I", 64)),
    ]
    tensors = [
        _string("first") + struct.pack("<IQQIQ", 2, 3, 2, 0, 0),
        _string("second") + struct.pack("<IQIQ", 1, 4, 0, 64),
    ]
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    body = head + b"".join(entries) + b"".join(tensors)
    body += b"\0" * (-len(body) % 64)
    first = struct.pack("<6f", *range(6)).ljust(64, b"\0")
    return body + first + struct.pack("<4f", 9, 8, 7, 6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "model.gguf"
    target.write_bytes(_file())
    return target


def test_metadata_of_every_kind_is_read(path: Path) -> None:
    file = GgufFile(path)
    assert file.text("name") == "wörd"
    assert file.integer("count") == 7
    assert file.integer("below") == -3
    assert file.number("ratio") == 0.5
    assert file.metadata["flag"] is True
    assert file.strings("words") == ["a", ""]
    assert file.integers("kinds") == [3, 1]


def test_tensors_are_found_behind_the_alignment(path: Path) -> None:
    file = GgufFile(path)
    first, second = file.tensors["first"], file.tensors["second"]
    assert first.shape == (2, 3)
    assert first.offset % 64 == 0
    assert struct.unpack("<6f", file.bytes_of(first, 24)) == (0, 1, 2, 3, 4, 5)
    assert struct.unpack("<4f", file.bytes_of(second, 16)) == (9, 8, 7, 6)


def test_a_tensor_past_the_end_is_refused(path: Path) -> None:
    file = GgufFile(path)
    with pytest.raises(ConfigError, match="ends inside tensor second"):
        file.bytes_of(file.tensors["second"], 17)


@pytest.mark.parametrize("key", ["absent", "count"])
def test_a_missing_or_wrong_member_is_named(path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        GgufFile(path).text(key)


def test_a_file_cut_anywhere_in_its_head_is_refused(path: Path) -> None:
    whole = _file()
    head = whole.index(b"second") + 10
    for length in range(1, head):
        path.write_bytes(whole[:length])
        with pytest.raises(ConfigError):
            GgufFile(path)


@pytest.mark.parametrize("content", [b"", b"GGML" + _file()[4:], _file(version=1)])
def test_other_files_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ConfigError):
        GgufFile(path)


def test_an_array_longer_than_the_file_is_refused_without_taking_memory(path: Path) -> None:
    huge = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    huge += _entry("kinds", 9, struct.pack("<IQ", 5, 1 << 60))
    path.write_bytes(huge)
    with pytest.raises(ConfigError):
        GgufFile(path)
