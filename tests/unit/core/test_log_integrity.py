"""CRC-32 and Merkle leaves of a log, against values computed with zlib and hashlib."""

from __future__ import annotations

import hashlib
import zlib

import pytest

from millstream import _core
from millstream.types import Kind
from tests.reference import log as twin

STREAM_ID = b"strm-1"


def checked(texts: list[str], **bounds: int) -> _core.Log:
    log = _core.Log(integrity=STREAM_ID, **bounds)
    for text in texts:
        log.append(Kind.TOKEN, text, token_count=1, time_ns=1)
    return log


def checks(texts: list[str]) -> tuple[int, int, int, bytes]:
    found = checked(texts).checks()
    assert found is not None
    return found


def expected(texts: list[str]) -> twin.Integrity:
    log = twin.Log(integrity=STREAM_ID)
    for text in texts:
        log.append(Kind.TOKEN, text, time_ns=1)
    assert log.integrity is not None
    return log.integrity


def test_an_empty_stream_has_the_empty_root() -> None:
    assert checks([]) == (0, 0, 0, hashlib.sha256().digest())


def test_one_token_spelled_out() -> None:
    leaf = hashlib.sha256(b"\x00" + STREAM_ID + bytes(8) + b"\x02Hi").digest()
    assert checks(["Hi"]) == (1, 2, zlib.crc32(b"\x02Hi"), leaf)


def test_two_leaves_spelled_out() -> None:
    texts = [f"t{n}" for n in range(9)]
    records = [b"\x02" + text.encode() for text in texts]
    first = hashlib.sha256(b"\x00" + STREAM_ID + bytes(8) + b"".join(records[:8])).digest()
    second = hashlib.sha256(b"\x00" + STREAM_ID + bytes(7) + b"\x01" + records[8]).digest()
    root = hashlib.sha256(b"\x01" + first + second).digest()
    assert checks(texts) == (9, 18, zlib.crc32(b"".join(records)), root)
    assert checked(texts).leaves() == [(0, 8, first)], "a short leaf is not finished"


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 17, 24, 25, 65])
def test_every_length_equals_the_twin(count: int) -> None:
    texts = [f" word{n}" for n in range(count)]
    assert checks(texts) == expected(texts).checks()
    assert checked(texts).leaves() == expected(texts).leaves()[: count // 8]


@pytest.mark.parametrize(
    "texts",
    [
        ["\n"],
        ["a\nb", "\r\n"],
        ["", "", ""],
        ["x" * 127, "y" * 128, "z" * 20_000],
        ["ü", "漢", "🦀"],
    ],
    ids=["newline", "newlines", "empty", "varint", "utf-8"],
)
def test_any_text_equals_the_twin(texts: list[str]) -> None:
    assert checks(texts) == expected(texts).checks()


def test_a_character_split_over_tokens_counts_where_its_text_appears() -> None:
    # The detokenizer gives out whole scalars only: the first token of a split one has no text.
    held, whole = checks(["", "é"]), checks(["é"])
    assert held[1] == whole[1] == 2
    assert held[2] != whole[2]


ORIGINAL = [f"<{n}>" for n in range(20)]
DAMAGE = {
    "swapped": [*ORIGINAL[:4], ORIGINAL[5], ORIGINAL[4], *ORIGINAL[6:]],
    "swapped over leaves": [*ORIGINAL[:7], ORIGINAL[8], ORIGINAL[7], *ORIGINAL[9:]],
    "dropped": [*ORIGINAL[:10], *ORIGINAL[11:]],
    "doubled": [*ORIGINAL[:3], ORIGINAL[2], *ORIGINAL[3:]],
    "cut": ORIGINAL[:-1],
    "changed": [*ORIGINAL[:9], "<g>", *ORIGINAL[10:]],
    "moved border": ["<0><", "1>", *ORIGINAL[2:]],
}


@pytest.mark.parametrize("damaged", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_shows_in_crc_and_root(damaged: list[str]) -> None:
    assert checks(damaged)[2] != checks(ORIGINAL)[2]
    assert checks(damaged)[3] != checks(ORIGINAL)[3]


def test_only_token_records_count() -> None:
    log = checked(["a"])
    before = log.checks()
    log.append(Kind.FINISH, "stop", time_ns=1)
    log.append(Kind.USAGE, "{}", time_ns=1)
    log.close("completed", time_ns=1)
    assert log.checks() == before


def test_the_crc_of_any_kept_place_is_known_after_trimming() -> None:
    log = checked(ORIGINAL, max_records=5)
    assert log.oldest == 16
    whole = expected(ORIGINAL)
    assert [log.crc_at(seq) for seq in (14, 21)] == [None, None]
    assert [log.crc_at(seq) for seq in range(15, 21)] == [whole.crc(n) for n in range(15, 21)]
    assert [leaf[:2] for leaf in log.leaves()] == [(1, 16)]
    assert log.leaves(after=16) == []


def test_without_integrity_nothing_is_computed() -> None:
    log = _core.Log()
    log.append(Kind.TOKEN, "a", time_ns=1)
    assert (log.checks(), log.crc_at(1), log.leaves()) == (None, None, [])
