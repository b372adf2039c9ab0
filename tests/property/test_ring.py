from __future__ import annotations

import os
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream._core import RingConsumer, RingProducer
from tests.reference.ring import HEADER_BYTES, Memory, Reader, RecordTuple, Writer

_CAPACITY = 4096
_TEXTS = st.one_of(
    st.text(max_size=12),
    st.integers(0, 700).map(lambda size: "é漢🦀x"[size % 4] * size),
)
_WRITES = st.tuples(
    st.just("write"),
    st.integers(0, 3),
    st.sampled_from([1, 1, 1, 1, 1, 2, 3, 4, 5]),
    st.integers(0, 2),
    st.integers(0, 5),
    _TEXTS,
)
_OTHERS = st.one_of(
    st.just(("flush",)),
    st.just(("drain",)),
    st.tuples(st.just("discard"), st.integers(0, 3)),
)
_STEPS = st.lists(st.one_of(_WRITES, _WRITES, _WRITES, _OTHERS), max_size=120)


def _ring() -> tuple[RingConsumer, RingProducer]:
    consumer = RingConsumer.create(_CAPACITY)
    producer = RingProducer(os.dup(consumer.memory_fd()), os.dup(consumer.notify_fd()))
    return consumer, producer


def _write(ring: RingProducer | Writer, step: tuple[object, ...], time_ns: int) -> str:
    _, stream, kind, choice, token_count, text = step
    assert isinstance(stream, int)
    assert isinstance(kind, int)
    assert isinstance(choice, int)
    assert isinstance(token_count, int)
    assert isinstance(text, str)
    try:
        ring.write(stream, kind, text, choice=choice, token_count=token_count, time_ns=time_ns)
    except ValueError:
        return "refused"
    return "taken"


def _run(
    ring: RingProducer | Writer,
    drain: Callable[[], list[RecordTuple]],
    steps: list[tuple[object, ...]],
) -> list[object]:
    """What each step gives, and at the end all that was left."""
    seen: list[object] = []
    for time_ns, step in enumerate(steps):
        if step[0] == "write":
            seen.append(_write(ring, step, time_ns))
        elif step[0] == "flush":
            seen.append(ring.flush())
        elif step[0] == "drain":
            seen.append(drain())
        else:
            assert isinstance(step[1], int)
            ring.discard(step[1])
    while ring.flush():
        seen.append(drain())
    return [*seen, drain()]


@given(_STEPS)
@settings(max_examples=200, deadline=None)
def test_behaves_as_the_twin(steps: list[tuple[object, ...]]) -> None:
    consumer, producer = _ring()
    other = RingConsumer.create(_CAPACITY)
    twin = Memory(other.memory_fd())
    expected = _run(Writer(twin), Reader(twin).drain, steps)
    assert _run(producer, consumer.drain, steps) == expected


@given(_STEPS)
@settings(max_examples=100, deadline=None)
def test_each_end_understands_the_twin_at_the_other(steps: list[tuple[object, ...]]) -> None:
    consumer, producer = _ring()
    reader = Reader(Memory(consumer.memory_fd()))
    theirs = _run(producer, reader.drain, steps)
    consumer, _ = _ring()
    writer = Writer(Memory(consumer.memory_fd()))
    assert _run(writer, consumer.drain, steps) == theirs


@given(
    st.lists(
        st.tuples(
            st.integers(0, HEADER_BYTES + _CAPACITY - 1),
            st.one_of(st.binary(min_size=1, max_size=16), st.binary(min_size=64, max_size=512)),
        ),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.text(max_size=60), min_size=1, max_size=20),
)
@settings(max_examples=300, deadline=None)
def test_bytes_scribbled_over_the_memory_give_records_or_an_error(
    damage: list[tuple[int, bytes]], texts: list[str]
) -> None:
    consumer, producer = _ring()
    memory = Memory(consumer.memory_fd())
    for turn, text in enumerate(texts):
        producer.write(turn, 1, text, time_ns=0)
        try:
            producer.flush()
        except ConnectionError:
            return
        if turn < len(damage):
            place, data = damage[turn]
            memory.map[place : place + len(data)] = data[: len(memory.map) - place]
        try:
            records = consumer.drain()
        except ConnectionError:
            return
        assert all(1 <= record[2] <= 5 and record[5].encode() is not None for record in records)


@given(st.integers(0, 600), st.integers(0, 40))
@settings(max_examples=200, deadline=None)
def test_a_record_of_any_length_survives_the_wrap_at_any_place(lead: int, length: int) -> None:
    consumer, producer = _ring()
    for turn in range(lead):
        producer.write(turn, 1, "", time_ns=0)
        producer.flush()
        assert len(consumer.drain()) == 1
    producer.write(lead, 1, "é" * length, time_ns=0)
    producer.flush()
    assert consumer.drain() == [(lead, 0, 1, 0, 0, "é" * length)]
