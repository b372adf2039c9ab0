"""A producer dies, or is taken for dead: its streams end once, for everybody, and visibly."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from millstream.store.valkey import control, seal
from millstream.store.valkey.mirror import Mirror
from tests.integration.valkey_server import ValkeyServer
from tests.integration.valkey_stores import (
    SHORT,
    Producer,
    Workers,
    ended,
    found,
    frames,
    stored,
)
from tests.unit.store.recordings import Observed, finish, recording, write
from tests.waiting import until, until_true


class Process:
    """A worker in a process of its own."""

    def __init__(self, url: str, names: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.valkey_worker", url, *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    async def tokens(self, *words: str) -> None:
        """One to each stream, for each word."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for word in words:
            self._process.stdin.write(f"{word}\n")
            self._process.stdin.flush()
            await asyncio.to_thread(self._process.stdout.readline)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> str:
        """What it logged."""
        self._process.send_signal(signal.SIGCONT)
        return self._process.communicate()[1]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def process(url: str, *names: str) -> Iterator[Process]:
    running = Process(url, list(names))
    try:
        yield running
    finally:
        running.close()


def entries(valkey: ValkeyServer, stream_id: str, epoch: int) -> int:
    names = [name for name, _ in valkey.client.xrange(f"ms:{{{stream_id}}}:log")]
    return sum(name.startswith(b"%d-" % epoch) for name in names)


def epochs_there(valkey: ValkeyServer, stream_id: str, count: int) -> None:
    until(lambda: valkey.client.xlen(f"ms:{{{stream_id}}}:log") >= count, what="entries")


async def test_the_streams_of_a_killed_worker_end_once_and_say_why(
    workers: Workers, valkey: ValkeyServer
) -> None:
    observed = Observed()
    stores = [await workers.open(observed=observed, lease_seconds=SHORT) for _ in range(3)]
    names = [f"s{number}" for number in range(20)]
    with process(valkey.url, *names) as producer:
        await producer.tokens("one", "two", "three")
        for name in names:
            epochs_there(valkey, name, 1)
        mirrors = [[await found(store, name) for name in names] for store in stores]
        await until_true(lambda: all(one.log.tail == 3 for one in mirrors[0]))
        producer.signal(signal.SIGKILL)
        for mirror in (mirror for each in mirrors for mirror in each):
            await ended(mirror)
            assert mirror.log.text() == "one two three "
            assert mirror.outcome == "engine_lost"
            assert json.loads(mirror.log.error or "")["code"] == "producer_lost"
    # Each is counted once, by whichever of the three ended it.
    await until_true(lambda: len(observed.sealed) >= len(names))
    assert [outcome for _, _, outcome in observed.sealed] == ["engine_lost"] * len(names)
    for name in names:
        assert entries(valkey, name, 2) == 1
        assert frames(mirrors[0][names.index(name)]) == frames(mirrors[2][names.index(name)])
        assert 0 < valkey.client.pttl(f"ms:{{{name}}}:log") <= 60_000
    assert not await stores[0].cancel(names[0], None)
    late = await found(await workers.open(lease_seconds=SHORT), names[0])
    assert frames(late) == frames(mirrors[0][0])


async def test_whoever_comes_after_the_death_of_the_producer_is_told_too(
    workers: Workers, valkey: ValkeyServer
) -> None:
    with process(valkey.url, "a") as producer:
        await producer.tokens("one")
        epochs_there(valkey, "a", 1)
        producer.signal(signal.SIGKILL)
    await until_true(lambda: not valkey.client.keys("ms:owner:*"))
    mirror = await found(await workers.open(lease_seconds=SHORT), "a")
    assert (mirror.log.text(), mirror.outcome) == ("one ", None)
    await ended(mirror)
    assert mirror.outcome == "engine_lost"
    # A client of the one that died may have as many records as there are now, and other ones.
    assert mirror.descriptor.epoch == 2


async def test_a_worker_that_was_taken_for_dead_is_refused_and_stops_for_good(
    workers: Workers, valkey: ValkeyServer
) -> None:
    store = await workers.open(lease_seconds=SHORT)
    with process(valkey.url, "a") as producer:
        await producer.tokens("one")
        mirror = await found(store, "a")
        await until_true(lambda: mirror.log.tail == 1)
        producer.signal(signal.SIGSTOP)
        await ended(mirror)
        tail = valkey.client.xrevrange("ms:{a}:log", count=1)
        producer.signal(signal.SIGCONT)
        await producer.tokens("two", "three")
        await asyncio.sleep(0.3)
        await producer.tokens("four")
        logged = await asyncio.to_thread(producer.end)
    assert logged.count("stream_ended_elsewhere") == 1
    assert valkey.client.xrevrange("ms:{a}:log", count=1) == tail
    assert frames(await found(await workers.open(lease_seconds=SHORT), "a")) == frames(mirror)


async def test_an_outage_longer_than_the_lease_kills_no_stream(
    own_valkey: ValkeyServer,
) -> None:
    workers = Workers(own_valkey)
    here, there = await workers.open(lease_seconds=SHORT), await workers.open(lease_seconds=SHORT)
    stream = recording("a", "one ")
    here.publish(stream, Producer())
    await stored(own_valkey, stream)
    mirror = await found(there, "a")
    for _ in range(2):
        own_valkey.freeze()
        await asyncio.sleep(1.5)  # the heartbeat's time is up when the server comes to itself
        own_valkey.thaw()
        write(stream, "more ")
        await stored(own_valkey, stream)
    own_valkey.kill()
    await asyncio.sleep(1.2)
    own_valkey.start()
    write(stream, "last")
    here.keep(finish(stream))
    await ended(mirror)
    assert (mirror.outcome, mirror.log.text()) == ("completed", "one more more last")
    await workers.close()


async def test_a_stream_that_goes_on_is_not_ended_by_one_who_has_not_read_it_all(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    stream = recording("a", "one ")
    here.publish(stream, Producer())
    await stored(valkey, stream)
    mirror = await found(there, "a")
    assert isinstance(mirror, Mirror)
    there._tasks[1].cancel()  # reads nothing from here on
    assert await seal.seal(there._asking, mirror, time_ns=1) == "alive"
    valkey.client.delete(f"ms:owner:{here.process}")
    valkey.client.xadd("ms:{a}:log", {"b": b"unread"}, id="1-9")
    assert await seal.seal(there._asking, mirror, time_ns=1) == "moved"
    valkey.client.delete("ms:{a}")
    assert await seal.seal(there._asking, mirror, time_ns=1) == "gone"
    assert entries(valkey, "a", 2) == 0


async def test_the_last_words_of_a_checked_stream_go_on_with_its_checks(
    workers: Workers, valkey: ValkeyServer
) -> None:
    store = await workers.open()
    stream = recording("a", *(f"{number} " for number in range(13)), integrity=True)
    here = await workers.open()
    here.publish(stream, Producer())
    await stored(valkey, stream)
    mirror = await found(store, "a")
    assert isinstance(mirror, Mirror)
    valkey.client.delete(f"ms:owner:{here.process}")
    assert await seal.seal(store._asking, mirror, time_ns=1) == "sealed"
    await ended(mirror)
    assert mirror.log.checks() == stream.log.checks()


async def test_a_stream_of_which_nothing_was_written_ends_as_well(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(lease_seconds=SHORT), await workers.open(lease_seconds=SHORT)
    stream = recording("a")
    here.publish(stream, Producer())
    mirror = await found(there, "a")
    for task in here._tasks:
        task.cancel()
    await ended(mirror)
    assert (mirror.outcome, mirror.log.text()) == ("engine_lost", "")


async def test_a_control_stream_goes_with_its_worker(
    workers: Workers, valkey: ValkeyServer
) -> None:
    store = await workers.open(lease_seconds=SHORT)
    key = f"ms:control:{store.process}"
    await until_true(lambda: 0 < valkey.client.pttl(key) <= 6_000)
    assert valkey.client.execute_command(*control.post("nobody", control.Wake())) is None
    await workers.leave(store)
    assert not valkey.client.keys("ms:*")
