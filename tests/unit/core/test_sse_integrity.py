"""What frames say of the text's integrity, recomputed here by the definition."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Any

import pytest

from millstream._core import Encoder, SseParser
from millstream.types import Kind
from tests.reference.log import merkle_root

TEXTS = ["a", " b", "\n", "é🦀", "", "x" * 200, '"', "data: y", "last"]
TOKENS = [(seq, 0, Kind.TOKEN, 0, 1, text) for seq, text in enumerate(TEXTS, 1)]
FINISH = (10, 0, Kind.FINISH, 0, 0, "stop")


def end(outcome: str = "completed") -> tuple[int, int, int, int, int, str]:
    return (11, 0, Kind.END, 0, 0, outcome)


def prefixed(text: str) -> bytes:
    data, prefix = text.encode(), b""
    length = len(data)
    while length >= 128:
        prefix, length = prefix + bytes([length % 128 + 128]), length // 128
    return prefix + bytes([length]) + data


def crc(texts: list[str]) -> str:
    return f"{zlib.crc32(b''.join(map(prefixed, texts))):08x}"


def digest(index: int, texts: list[str]) -> bytes:
    head = b"\0" + b"s1" + index.to_bytes(8, "big")
    return hashlib.sha256(head + b"".join(map(prefixed, texts))).digest()


LEAF = {"index": 0, "digest": digest(0, TEXTS[:8]).hex()}
CHECKS = {
    "records": 9,
    "bytes": sum(len(text.encode()) for text in TEXTS),
    "crc": crc(TEXTS),
    "root": merkle_root([digest(0, TEXTS[:8]), digest(1, TEXTS[8:])]).hex(),
}


def encoder(dialect: str = "chat", **options: Any) -> Encoder:
    return Encoder(
        dialect=dialect,
        chunk_id="c",
        model="m",
        created=0,
        **{"integrity": True, "stream_id": "s1", "epoch": 2, **options},
    )


def data(frames: bytes) -> list[Any]:
    return [json.loads(event.data) for event in SseParser().feed(frames) if event.data != "[DONE]"]


def test_ids_carry_the_crc_of_the_text_so_far() -> None:
    events = SseParser().feed(encoder("completion").encode([*TOKENS, FINISH]))
    assert [event.id for event in events] == [
        *(f"2-{seq}-{crc(TEXTS[:seq])}" for seq in range(1, 10)),
        f"2-10-{crc(TEXTS)}",
    ]


def test_a_native_leaf_follows_the_token_that_completed_it_without_an_id() -> None:
    frames = encoder("native").encode(TOKENS)
    events = SseParser().feed(frames)
    assert [event.event for event in events] == ["token"] * 8 + ["leaf", "token"]
    assert json.loads(events[8].data) == {**LEAF, "last": "2-8"}
    assert frames.count(b"id: ") == 9
    assert events[8].id == events[7].id


def test_without_an_epoch_a_leaf_names_the_seq_alone() -> None:
    events = SseParser().feed(encoder("native", epoch=None).encode(TOKENS))
    assert json.loads(events[8].data)["last"] == "8"
    assert events[-1].id == ""


def test_the_native_end_sums_up() -> None:
    done = data(encoder("native").encode([*TOKENS, FINISH, end("cancelled")]))[-1]
    assert done == {"outcome": "cancelled", "checks": CHECKS}


def test_chunks_carry_crc_and_leaf_in_their_stream_member() -> None:
    *tokens, finish = data(encoder(metadata=False).encode([*TOKENS, FINISH]))
    assert [chunk["stream"]["crc"] for chunk in tokens] == [crc(TEXTS[:n]) for n in range(1, 10)]
    assert [chunk["stream"].get("leaf") for chunk in tokens] == [None] * 7 + [LEAF, None]
    assert finish["stream"] == {"crc": crc(TEXTS)}


def test_the_checks_come_before_done_and_leave_the_id_to_it() -> None:
    # whoever is cut off between the two must still get `[DONE]`
    one = encoder(include_usage=True)
    one.encode([*TOKENS, FINISH])
    frames = one.encode([end()])
    checks, done = SseParser().feed(frames)
    chunk = json.loads(checks.data)
    assert (chunk["choices"], chunk["usage"]) == ([], None)
    assert chunk["stream"] == {"crc": crc(TEXTS), "checks": CHECKS}
    assert (checks.id, done.id, done.data) == ("", f"2-11-{crc(TEXTS)}", "[DONE]")


@pytest.mark.parametrize("framing", ["sse", "ndjson"])
def test_without_done_the_checks_are_the_last_chunk(framing: str) -> None:
    one = encoder(framing=framing)
    one.encode([*TOKENS, FINISH])
    frame = one.encode([end("shed")])
    body = frame.rpartition(b"data: ")[2]
    assert json.loads(body)["stream"]["checks"] == CHECKS
    assert f"2-11-{crc(TEXTS)}".encode() in frame


def test_a_stream_without_a_token_has_checks_too() -> None:
    (done,) = data(encoder("native").encode([(1, 0, Kind.END, 0, 0, "shed")]))
    assert done["checks"] == {
        "records": 0,
        "bytes": 0,
        "crc": "00000000",
        "root": hashlib.sha256().hexdigest(),
    }


def test_after_a_missing_record_nothing_is_claimed() -> None:
    one = encoder("native")
    events = SseParser().feed(one.encode([*TOKENS[:3], *TOKENS[4:], FINISH, end()]))
    assert [event.id.count("-") for event in events] == [2] * 3 + [1] * 7
    assert [event.event for event in events] == ["token"] * 8 + ["finish", "done"]
    assert json.loads(events[-1].data) == {"outcome": "completed"}


def test_a_copy_goes_on_where_its_origin_stands() -> None:
    origin = encoder("native")
    origin.encode(TOKENS[:5])
    later = SseParser().feed(origin.resumed().encode(TOKENS[5:]))
    assert later[-1].id == f"2-9-{crc(TEXTS)}"


def test_nothing_of_it_is_written_unasked() -> None:
    plain = Encoder(dialect="native", chunk_id="c", model="m", created=0, epoch=2, stream_id="s1")
    events = SseParser().feed(plain.encode([*TOKENS, end()]))
    assert events[8].id == "2-9"
    assert json.loads(events[-1].data) == {"outcome": "completed"}
