from __future__ import annotations

from millstream.durable.producers import FORGET_NS, PRODUCER_BYTES, Producers
from millstream.durable.refusals import Reason, Refusal
from tests.unit.durable.making import mark

DAY = 86_400 * 1_000_000_000


def reason(verdict: object) -> Reason:
    assert isinstance(verdict, Refusal), verdict
    return verdict.reason


def with_accepted(*sequences: int, epoch: int = 0) -> Producers:
    producers = Producers()
    for sequence in sequences:
        assert producers.judge(mark(sequence, epoch=epoch)) == "new"
        producers.accept(mark(sequence, epoch=epoch), 0)
    return producers


def test_sequences_are_taken_in_order_and_once() -> None:
    producers = with_accepted(0, 1)

    assert producers.judge(mark(0)) == "duplicate"
    assert producers.judge(mark(1)) == "duplicate"
    assert producers.judge(mark(2)) == "new"
    assert producers.highest(mark(0)) == 1


def test_a_gap_says_what_was_expected() -> None:
    verdict = with_accepted(0).judge(mark(2))

    assert reason(verdict) is Reason.PRODUCER_GAP
    assert isinstance(verdict, Refusal)
    assert (verdict.expected, verdict.received) == (1, 2)


def test_an_unknown_producer_begins_at_0() -> None:
    assert reason(Producers().judge(mark(3))) is Reason.PRODUCER_GAP
    assert Producers().judge(mark(0, epoch=7)) == "new"


def test_a_new_epoch_begins_at_0_and_fences_the_old_one_off() -> None:
    producers = with_accepted(0, 1)
    assert reason(producers.judge(mark(1, epoch=1))) is Reason.PRODUCER_START
    assert producers.judge(mark(0, epoch=1)) == "new"
    producers.accept(mark(0, epoch=1), 0)

    zombie = producers.judge(mark(2))

    assert reason(zombie) is Reason.PRODUCER_EPOCH
    assert isinstance(zombie, Refusal)
    assert zombie.epoch == 1


def test_producers_do_not_know_of_each_other() -> None:
    assert with_accepted(0, 1).judge(mark(0, name="q")) == "new"


def test_judging_changes_nothing() -> None:
    producers = with_accepted(0)

    assert [producers.judge(mark(1)) for _ in range(3)] == ["new"] * 3


def test_a_producer_costs_once_and_is_forgotten_after_seven_days_of_silence() -> None:
    producers = Producers()
    assert producers.cost(mark(0)) == PRODUCER_BYTES + 1
    producers.accept(mark(0), 0)
    assert producers.cost(mark(1)) == 0

    assert producers.forget(FORGET_NS) == 0
    assert producers.forget(FORGET_NS + 1) == 0  # looked a moment ago
    assert producers.forget(FORGET_NS + DAY) == PRODUCER_BYTES + 1
    assert producers.judge(mark(0)) == "new"
