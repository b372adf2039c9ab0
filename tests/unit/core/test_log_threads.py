"""A log under threads: one producer, many readers that sleep on descriptors."""

from __future__ import annotations

import json
import select
import threading

from millstream import _core
from millstream.types import Kind

READERS = 8
RECORDS = 3000


def follow(log: _core.Log, seen: list[str]) -> None:
    """Read to the end as an event loop would; a lost wake shows as a timeout."""
    notifier = _core.Notifier()
    encoder = _core.Encoder(dialect="native", framing="ndjson", chunk_id="c", model="m", created=1)
    reader = _core.Reader(log, encoder)
    while not reader.finished:
        frames = reader.take()
        seen.extend(json.loads(line).get("text", "") for line in frames.splitlines())
        if reader.gap is not None:
            seen.append(f"gap {reader.cursor + 1}..{reader.gap[0] - 1}")
            reader.skip_gap()
        elif not frames and not reader.finished and reader.park(reader, notifier):
            assert select.select([notifier], [], [], 60)[0], "a wake was lost"
            assert len(notifier.ready()) == 1


def run(log: _core.Log) -> list[list[str]]:
    seen: list[list[str]] = [[] for _ in range(READERS)]
    threads = [threading.Thread(target=follow, args=(log, texts)) for texts in seen]
    for thread in threads:
        thread.start()
    pause = threading.Event()
    for number in range(RECORDS):
        log.append(Kind.TOKEN, f"{number}", token_count=1, time_ns=number)
        if number % 50 == 0:
            pause.wait(0.0005)  # lets readers park, so that wakes happen at all
    log.close("completed", time_ns=RECORDS)
    for thread in threads:
        thread.join(90)
        assert not thread.is_alive()
    return seen


def test_every_reader_sees_every_record_in_order() -> None:
    expected = [*map(str, range(RECORDS)), ""]
    assert run(_core.Log()) == [expected] * READERS


def test_overrun_readers_still_reach_the_end_in_order() -> None:
    for texts in run(_core.Log(max_records=16)):
        numbers = [int(text) for text in texts if text.isdigit()]
        assert numbers == sorted(set(numbers))
        lost = [text.removeprefix("gap ").split("..") for text in texts if text.startswith("gap")]
        missing = sum(int(last) - int(first) + 1 for first, last in lost)
        assert len(numbers) + missing == RECORDS
        assert texts[-1] == ""
