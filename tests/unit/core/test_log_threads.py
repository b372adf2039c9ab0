"""A log under threads: one producer, many readers that sleep on descriptors."""

from __future__ import annotations

import json
import select
import sys
import threading
from collections.abc import Iterator

import pytest

from millstream import _core
from millstream.types import Kind
from tests.waiting import HANG_SECONDS

READERS = 8
RECORDS = 3000
EVERY = 2


class Checkpoints:
    """Lets the producer wait until every reader has the record that it wrote last."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)

    def saw(self, text: str) -> None:
        if text.isdigit() and int(text) % EVERY == 0:
            self.reached.release()

    def wait(self) -> None:
        # Nothing is appended meanwhile that could wake a reader which this record left asleep.
        for _ in range(READERS):
            assert self.reached.acquire(timeout=HANG_SECONDS), "a wake was lost"


def follow(log: _core.Log, seen: list[str], checkpoints: Checkpoints) -> None:
    """Read to the end as an event loop would."""
    notifier = _core.Notifier()
    # Not `select`: a process with many open files gets descriptors above its limit of 1,024.
    poll = select.poll()
    poll.register(notifier, select.POLLIN)
    encoder = _core.Encoder(dialect="native", framing="ndjson", chunk_id="c", model="m", created=1)
    reader = _core.Reader(log, encoder)
    while not reader.finished:
        frames = reader.take()
        for line in frames.splitlines():
            seen.append(json.loads(line).get("text", ""))
            checkpoints.saw(seen[-1])
        if reader.gap is not None:
            seen.append(f"gap {reader.cursor + 1}..{reader.gap[0] - 1}")
            reader.skip_gap()
        elif not frames and not reader.finished and reader.park(reader, notifier):
            assert poll.poll(HANG_SECONDS * 1000), "a wake was lost"
            assert len(notifier.ready()) == 1


@pytest.fixture(autouse=True)
def switches_often() -> Iterator[None]:
    """Threads change places within microseconds, so that appends fall between take and park."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def run(log: _core.Log) -> list[list[str]]:
    seen: list[list[str]] = [[] for _ in range(READERS)]
    checkpoints = Checkpoints()
    threads = [
        threading.Thread(target=follow, args=(log, texts, checkpoints), daemon=True)
        for texts in seen
    ]
    for thread in threads:
        thread.start()
    for number in range(RECORDS):
        log.append(Kind.TOKEN, f"{number}", token_count=1, time_ns=number)
        if number % EVERY == 0:
            checkpoints.wait()
    log.close("completed", time_ns=RECORDS)
    for thread in threads:
        thread.join(HANG_SECONDS)
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
