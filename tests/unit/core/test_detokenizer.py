from __future__ import annotations

import os
import random

import pytest
from tokenizers.decoders import DecodeStream

from millstream._core import Detokenizer, Emitter, RingConsumer, RingProducer, Vocabulary
from tests.unit.core.vocabulary import RealVocabulary, load

_TOKENS = [b"a", "é".encode(), b"\xf0\x9f", b"\xa6\x80", b"<s>", b"ST", b"OP", b"\xc3"]
_A, _E, _CRAB_1, _CRAB_2, _SPECIAL, _ST, _OP, _HALF = range(8)


@pytest.fixture(scope="module")
def real() -> RealVocabulary:
    return load()


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(_TOKENS, {_SPECIAL})


def _sequences(size: int, count: int) -> list[list[int]]:
    source = random.Random(7)
    return [source.choices(range(size), k=source.randrange(1, 25)) for _ in range(count)]


def _text(vocabulary: Vocabulary, ids: list[int], stop: list[str] | None = None) -> str:
    detokenizer = Detokenizer(vocabulary, stop or [])
    return "".join([*map(detokenizer.push, ids), detokenizer.finish()])


@pytest.mark.parametrize("skip_special", [True, False])
def test_equals_decoding_the_whole_on_20000_random_sequences(
    real: RealVocabulary, skip_special: bool
) -> None:
    vocabulary = Vocabulary(real.tokens, real.special if skip_special else [])
    for ids in _sequences(len(real.tokens), 20_000):
        expected = real.oracle.decode(ids, skip_special_tokens=skip_special)
        assert _text(vocabulary, ids) == expected


def test_equals_decoding_the_whole_where_every_character_is_cut(real: RealVocabulary) -> None:
    vocabulary = Vocabulary(real.tokens, real.special)
    pieces = [index for index, token in enumerate(real.tokens) if max(token, default=0) >= 0x80]
    source = random.Random(8)
    for _ in range(5_000):
        ids = source.choices(pieces, k=12)
        assert _text(vocabulary, ids) == real.oracle.decode(ids, skip_special_tokens=True)


def test_shows_each_piece_no_later_than_decode_stream(real: RealVocabulary) -> None:
    vocabulary = Vocabulary(real.tokens, real.special)
    for ids in _sequences(len(real.tokens), 2_000):
        detokenizer, stream = Detokenizer(vocabulary), DecodeStream(skip_special_tokens=True)
        ours = theirs = ""
        for token in ids:
            ours += detokenizer.push(token)
            theirs += stream.step(real.oracle, token) or ""
            assert ours.startswith(theirs)


def test_bytes_of_every_id_are_those_of_the_library(real: RealVocabulary) -> None:
    for index in range(len(real.tokens)):
        expected = real.oracle.decode([index], skip_special_tokens=False)
        assert real.tokens[index].decode("utf-8", "replace") == expected


def test_the_first_text_never_holds_what_came_before(vocabulary: Vocabulary) -> None:
    # vllm-project/vllm#48853: a prompt that ended inside a character leaked into the first delta.
    assert _text(vocabulary, [_CRAB_2, _A]) == "\ufffd\ufffda"


@pytest.mark.parametrize("text", ["é", "漢", "🦀", "👩‍🚀"])
def test_a_character_cut_at_every_byte_stays_whole(text: str) -> None:
    # api7/aisix#111: chunk-wise lossy decoding damaged CJK and emoji.
    data = text.encode()
    for cut in range(len(data) + 1):
        assert _text(Vocabulary([data[:cut], data[cut:]]), [0, 1]) == text


def test_a_character_is_shown_with_its_last_byte(vocabulary: Vocabulary) -> None:
    detokenizer = Detokenizer(vocabulary)
    assert [detokenizer.push(token) for token in (_CRAB_1, _SPECIAL, _CRAB_2)] == ["", "", "🦀"]


def test_an_incomplete_end_is_one_replacement_character(vocabulary: Vocabulary) -> None:
    detokenizer = Detokenizer(vocabulary)
    assert detokenizer.push(_CRAB_1) == ""
    assert [detokenizer.finish(), detokenizer.finish()] == ["\ufffd", ""]


def test_a_stop_over_two_tokens_is_never_shown(vocabulary: Vocabulary) -> None:
    detokenizer = Detokenizer(vocabulary, ["STOP"])
    shown = [detokenizer.push(token) for token in (_A, _ST, _OP, _A)]
    assert shown == ["a", "", "", ""]
    assert detokenizer.stopped
    assert detokenizer.finish() == ""


def test_text_that_turns_out_to_be_no_stop_is_shown_at_once(vocabulary: Vocabulary) -> None:
    detokenizer = Detokenizer(vocabulary, ["STOP", "a🦀!"])
    shown = [detokenizer.push(token) for token in (_ST, _A, _CRAB_1, _CRAB_2, _E)]
    assert shown == ["", "ST", "", "", "a🦀é"]


@pytest.mark.parametrize("token", [-1, 8, 2**40])
def test_unknown_ids_are_errors(vocabulary: Vocabulary, token: int) -> None:
    with pytest.raises(ValueError, match=f"id {token} is outside the vocabulary of 8"):
        Detokenizer(vocabulary).push(token)
    with pytest.raises(ValueError, match="outside"):
        Vocabulary(_TOKENS, [token])


def test_an_empty_stop_is_refused(vocabulary: Vocabulary) -> None:
    with pytest.raises(ValueError, match="empty"):
        Detokenizer(vocabulary, ["a", ""])


def test_a_vocabulary_knows_its_size(vocabulary: Vocabulary) -> None:
    assert len(vocabulary) == 8


@pytest.fixture
def consumer() -> RingConsumer:
    return RingConsumer.create(1 << 16)


@pytest.fixture
def ring(consumer: RingConsumer) -> RingProducer:
    return RingProducer(os.dup(consumer.memory_fd()), os.dup(consumer.notify_fd()))


@pytest.fixture
def emitter(vocabulary: Vocabulary) -> Emitter:
    return Emitter(vocabulary)


def test_one_step_writes_the_records_of_all_its_slots(
    consumer: RingConsumer, ring: RingProducer, emitter: Emitter
) -> None:
    slots = [emitter.open(ring, 7, choice, []) for choice in range(3)]
    assert emitter.step(slots, [_A, _CRAB_1, _E], 1) == []
    assert emitter.step(slots, [_A, _CRAB_2, _SPECIAL], 2) == []
    ring.flush()
    assert consumer.drain() == [
        (7, 1, 1, 0, 1, "a"),
        (7, 1, 1, 2, 1, "é"),
        (7, 2, 1, 0, 1, "a"),
        (7, 2, 1, 1, 2, "🦀"),
    ]


def test_a_step_tells_which_slots_reached_a_stop(
    consumer: RingConsumer, ring: RingProducer, emitter: Emitter
) -> None:
    slot, other = emitter.open(ring, 1, 0, ["STOP"]), emitter.open(ring, 2, 0, [])
    assert emitter.step([slot, other], [_A, _ST], 1) == []
    assert emitter.step([slot, other, slot], [_ST, _OP, _OP], 2) == [slot]
    assert emitter.step([slot], [_A], 3) == []
    emitter.finish(slot, "stop", 4)
    ring.flush()
    assert [record for record in consumer.drain() if record[0] == 1] == [
        (1, 1, 1, 0, 1, "a"),
        (1, 4, 2, 0, 2, "stop"),
    ]


def test_finish_shows_what_was_held_and_counts_every_token(
    consumer: RingConsumer, ring: RingProducer, emitter: Emitter
) -> None:
    slot = emitter.open(ring, 1, 0, ["STOP"])
    emitter.step([slot, slot, slot], [_ST, _SPECIAL, _HALF], 1)
    emitter.finish(slot, "length", 2)
    ring.flush()
    assert consumer.drain() == [
        (1, 2, 1, 0, 3, "ST\ufffd"),
        (1, 2, 2, 0, 0, "length"),
    ]


def test_a_closed_slot_writes_nothing_and_takes_nothing(
    consumer: RingConsumer, ring: RingProducer, emitter: Emitter
) -> None:
    slot = emitter.open(ring, 1, 0, ["STOP"])
    emitter.step([slot], [_ST], 1)
    emitter.close(slot)
    for call in (
        lambda: emitter.step([slot], [_A], 2),
        lambda: emitter.finish(slot, "stop", 2),
        lambda: emitter.close(slot),
    ):
        with pytest.raises(ValueError, match=f"slot {slot} is not open"):
            call()
    assert ring.flush() == 0
    assert consumer.drain() == []
    assert emitter.open(ring, 2, 0, []) == slot


def test_a_bad_step_writes_nothing(
    consumer: RingConsumer, ring: RingProducer, emitter: Emitter
) -> None:
    slot = emitter.open(ring, 1, 0, [])
    for slots, ids in (([slot, slot], [_A]), ([slot, slot], [_A, 8]), ([slot, 5], [_A, _A])):
        with pytest.raises(ValueError, match=r"in one step|outside|not open"):
            emitter.step(slots, ids, 1)
    ring.flush()
    assert consumer.drain() == []
