from __future__ import annotations

import gc
import mmap
import os
import random
import select
import threading

import pytest

from millstream._core import RingConsumer, RingProducer
from millstream.types import Kind
from tests.reference.ring import HEAD_OFFSET, HEADER_BYTES, TAIL_OFFSET, Memory


def _producer(consumer: RingConsumer) -> RingProducer:
    return RingProducer(os.dup(consumer.memory_fd()), os.dup(consumer.notify_fd()))


def _readable(consumer: RingConsumer) -> bool:
    poll = select.poll()
    poll.register(consumer.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@pytest.fixture
def consumer() -> RingConsumer:
    return RingConsumer.create(4096)


@pytest.fixture
def producer(consumer: RingConsumer) -> RingProducer:
    return _producer(consumer)


def test_every_field_arrives_in_order(consumer: RingConsumer, producer: RingProducer) -> None:
    producer.write(2**64 - 1, Kind.TOKEN, "ü 🦀", choice=65535, token_count=2**32 - 1, time_ns=1)
    producer.write(7, Kind.USAGE, "{}", time_ns=2**64 - 1)
    assert producer.flush() == 0
    assert consumer.drain() == [
        (2**64 - 1, 1, 1, 65535, 2**32 - 1, "ü 🦀"),
        (7, 2**64 - 1, 3, 0, 0, "{}"),
    ]
    assert consumer.drain() == []


def test_one_wake_up_for_each_flush_with_news(
    consumer: RingConsumer, producer: RingProducer
) -> None:
    for _ in range(32):
        producer.write(1, Kind.TOKEN, "a", time_ns=0)
    assert not _readable(consumer)
    producer.flush()
    producer.flush()
    assert os.eventfd_read(consumer.fileno()) == 1
    producer.flush()
    assert not _readable(consumer)


def test_a_drain_clears_the_wake_up(consumer: RingConsumer, producer: RingProducer) -> None:
    producer.write(1, Kind.TOKEN, "a", time_ns=0)
    producer.flush()
    assert _readable(consumer)
    consumer.drain()
    assert not _readable(consumer)


def test_a_full_ring_merges_waiting_tokens_and_loses_nothing(
    consumer: RingConsumer, producer: RingProducer
) -> None:
    expected: dict[tuple[int, int], str] = {}
    for number in range(3000):
        stream, choice = number % 3, number % 2
        text = f"{number} "
        producer.write(stream, Kind.TOKEN, text, choice=choice, token_count=1, time_ns=number)
        expected[stream, choice] = expected.get((stream, choice), "") + text
    assert 6 <= producer.pending < 40
    records = []
    while producer.flush() or producer.pending:
        records += consumer.drain()
    records += consumer.drain()
    received: dict[tuple[int, int], str] = {}
    for stream, _, _, choice, _, text in records:
        received[stream, choice] = received.get((stream, choice), "") + text
    assert received == expected
    assert sum(record[4] for record in records) == 3000


def test_times_of_one_choice_never_go_back(consumer: RingConsumer, producer: RingProducer) -> None:
    for number in range(500):
        producer.write(1, Kind.TOKEN, "x", time_ns=number)
    times: list[int] = []
    while producer.flush() or not times or producer.pending:
        times += [record[1] for record in consumer.drain()]
    times += [record[1] for record in consumer.drain()]
    assert times == sorted(times)


def test_discard_drops_what_waits_of_one_stream(
    consumer: RingConsumer, producer: RingProducer
) -> None:
    while not producer.pending:
        producer.write(1, Kind.TOKEN, "x" * 100, time_ns=0)
    producer.write(2, Kind.TOKEN, "kept", time_ns=0)
    producer.discard(1)
    assert producer.flush() == 1
    assert {record[0] for record in consumer.drain()} == {1}
    assert producer.flush() == 0
    assert [record[5] for record in consumer.drain()] == ["kept"]


def test_token_text_beyond_a_record_is_split_and_other_text_refused(
    consumer: RingConsumer, producer: RingProducer
) -> None:
    text = "漢🦀é" * 500
    producer.write(1, Kind.TOKEN, text, token_count=5, time_ns=0)
    records = []
    while producer.flush():
        records += consumer.drain()
    records += consumer.drain()
    assert "".join(record[5] for record in records) == text
    assert sum(record[4] for record in records) == 5
    with pytest.raises(ValueError, match="1025 bytes"):
        producer.write(1, Kind.ERROR, "x" * 1025, time_ns=0)


@pytest.mark.parametrize("capacity", [0, 4095, 2048, 12288, 2 << 30])
def test_a_capacity_that_is_no_power_of_two_in_range_is_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        RingConsumer.create(capacity)


def test_unknown_kinds_are_refused(producer: RingProducer) -> None:
    with pytest.raises(ValueError, match="kind"):
        producer.write(1, 9, "", time_ns=0)


def test_descriptors_are_closed_once_with_their_owner() -> None:
    consumer = RingConsumer.create(4096)
    own = [consumer.memory_fd(), consumer.fileno()]
    given = [os.dup(descriptor) for descriptor in own]
    producer = RingProducer(*given)
    assert not os.get_inheritable(own[0])
    assert not os.get_inheritable(own[1])
    del producer
    gc.collect()
    assert [_is_open(descriptor) for descriptor in own + given] == [True, True, False, False]
    del consumer
    gc.collect()
    assert not any(_is_open(descriptor) for descriptor in own)


def test_a_refused_ring_closes_the_descriptors_that_it_was_given(consumer: RingConsumer) -> None:
    memory, signal = os.memfd_create("no ring"), os.dup(consumer.notify_fd())
    with pytest.raises(ConnectionError):
        RingProducer(memory, signal)
    assert not _is_open(memory)
    assert not _is_open(signal)


def test_numbers_that_are_no_descriptors_are_refused(consumer: RingConsumer) -> None:
    with pytest.raises(OSError, match="descriptor"):
        RingProducer(-1, os.dup(consumer.notify_fd()))
    with pytest.raises(OSError, match="descriptor"):
        RingProducer(os.dup(consumer.memory_fd()), 1 << 20)
    with pytest.raises(ValueError, match="same"):
        RingProducer(consumer.memory_fd(), consumer.memory_fd())


def test_memory_that_could_shrink_under_the_producer_is_refused(consumer: RingConsumer) -> None:
    copy = os.memfd_create("copy", os.MFD_ALLOW_SEALING)
    with mmap.mmap(consumer.memory_fd(), HEADER_BYTES + 4096) as memory:
        os.write(copy, memory[:])
    with pytest.raises(ConnectionError, match="sealed"):
        RingProducer(copy, os.dup(consumer.notify_fd()))


def test_the_memory_cannot_be_cut_off(consumer: RingConsumer) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(consumer.memory_fd(), 0)


def test_a_producer_that_lies_about_the_head_breaks_only_the_ring(
    consumer: RingConsumer, producer: RingProducer
) -> None:
    producer.write(1, Kind.TOKEN, "a", time_ns=0)
    producer.flush()
    Memory(consumer.memory_fd()).set_position(HEAD_OFFSET, 1 << 40)
    for _ in range(2):
        with pytest.raises(ConnectionError, match="head"):
            consumer.drain()


def test_memory_scribbled_over_during_a_drain_gives_records_or_an_error() -> None:
    source = random.Random(11)
    broken = 0
    for _ in range(30):
        consumer = RingConsumer.create(1 << 16)
        producer = _producer(consumer)
        for number in range(500):
            producer.write(number, Kind.TOKEN, "é" * (number % 50), time_ns=0)
        producer.flush()
        words = Memory(consumer.memory_fd()).map
        places = [source.randrange(HEADER_BYTES, len(words)) for _ in range(2000)]
        noise = source.randbytes(2000)
        scribbler = threading.Thread(target=_scribble, args=(words, places, noise))
        scribbler.start()
        try:
            for _ in range(50):
                assert all(1 <= record[2] <= 5 for record in consumer.drain())
                producer.write(0, Kind.TOKEN, "x" * 500, time_ns=0)
                producer.flush()
        except ConnectionError:
            broken += 1
        scribbler.join()
    assert broken


def _scribble(words: mmap.mmap, places: list[int], noise: bytes) -> None:
    for place, byte in zip(places, noise, strict=True):
        words[place] = byte


def test_a_consumer_that_lies_about_the_tail_makes_flush_fail_and_write_go_on(
    consumer: RingConsumer, producer: RingProducer
) -> None:
    Memory(consumer.memory_fd()).set_position(TAIL_OFFSET, 1 << 40)
    for _ in range(200):
        producer.write(1, Kind.TOKEN, "a" * 50, time_ns=0)
    for _ in range(2):
        with pytest.raises(ConnectionError, match="tail"):
            producer.flush()
    assert producer.pending == 0
