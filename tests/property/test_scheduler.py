"""The scheduler under arbitrary arrivals, aborts, budgets and cache sizes.

The runner twin holds tokens in place of keys and values and asserts on every row that the pages
hold the sequence's own history; `Driver.check` counts references after every turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import given, settings

from millstream.engines.torch.sequence import Request
from tests.reference.driver import Driver, expected_output


@dataclass(frozen=True)
class Arrival:
    turn: int
    prompt: list[int]
    max_tokens: int
    n: int
    abort_after: int | None


# Few distinct tokens and a shared opening, so that prefixes of different requests often meet.
prompts = st.builds(
    lambda shared, rest: [0, 1, 2, 3] * shared + rest,
    st.integers(0, 4),
    st.lists(st.integers(0, 2), min_size=1, max_size=14),
)
arrivals = st.builds(
    Arrival,
    turn=st.integers(0, 20),
    prompt=prompts,
    max_tokens=st.integers(1, 24),
    n=st.integers(1, 3),
    abort_after=st.none() | st.integers(0, 12),
)
drivers = st.builds(
    Driver,
    num_pages=st.integers(9, 40),
    page_size=st.sampled_from([2, 4]),
    max_batch=st.integers(1, 4),
    max_step_tokens=st.integers(5, 40),
    context_length=st.sampled_from([40, 1000]),
    expected_output=st.integers(1, 30),
    overlap=st.booleans(),
    vocabulary=st.just(5),
)


def play(driver: Driver, script: list[Arrival]) -> tuple[list[Request], set[int]]:
    """Run the script to its end; the requests, and the numbers of those aborted in time."""
    requests: dict[int, Request] = {}
    aborted: set[int] = set()
    turn = 0
    while driver.busy or turn <= 40:
        for key, arrival in enumerate(script):
            if arrival.turn == turn and len(arrival.prompt) < driver.scheduler.max_length:
                params = {"max_tokens": arrival.max_tokens, "n": arrival.n}
                requests[key] = driver.add(key, arrival.prompt, seed=key, **params)
            due = arrival.abort_after is not None and arrival.turn + arrival.abort_after == turn
            if due and key in requests and not requests[key].finished:
                driver.scheduler.abort(requests[key])
                driver.check()
                aborted.add(key)
        step = driver.step()
        if step:
            computed = sum(len(row.tokens) or 1 for row in step.batch.rows)
            assert computed <= driver.scheduler._max_step_tokens
        turn += 1
        assert turn < 5000, "the scheduler makes no progress"
    return list(requests.values()), aborted


@settings(max_examples=250, deadline=None)
@given(drivers, st.lists(arrivals, max_size=8))
def test_every_sequence_ends_once_with_the_output_it_has_alone_and_no_page_is_left(
    driver: Driver, script: list[Arrival]
) -> None:
    requests, aborted = play(driver, script)
    assert driver.pool.used == 0
    assert driver.runner.open_slots == 0
    assert len(set(driver.ends)) == len(driver.ends)
    for request in requests:
        assert request.finished
        if request.key in aborted:
            continue
        for choice in request.choices:
            assert (request.key, choice.choice) in driver.ends
            assert choice.output == expected_output(choice, vocabulary=5)


@settings(max_examples=100, deadline=None)
@given(drivers, st.lists(arrivals, min_size=2, max_size=8))
def test_sequences_are_admitted_in_the_order_in_which_they_came(
    driver: Driver, script: list[Arrival]
) -> None:
    first_seen: list[int] = []
    open_slot = driver.scheduler._admit

    def admit(sequence):  # type: ignore[no-untyped-def]
        admitted = open_slot(sequence)
        if admitted and sequence.arrival not in first_seen:
            first_seen.append(sequence.arrival)
        return admitted

    driver.scheduler._admit = admit  # type: ignore[method-assign]
    play(driver, script)
    assert first_seen == sorted(first_seen)


@settings(max_examples=100, deadline=None)
@given(drivers, st.lists(arrivals, min_size=1, max_size=6))
def test_a_decode_is_in_every_step_while_it_runs(driver: Driver, script: list[Arrival]) -> None:
    schedule = driver.scheduler.schedule

    def watch():  # type: ignore[no-untyped-def]
        step = schedule()
        due = [one for one in driver.scheduler.running if not one.prefilling and not one.full]
        slots = {row.slot for row in step.batch.rows} if step else set()
        # What is due after a step has just computed in it: nothing was left out.
        assert all(one.slot in slots for one in due)
        return step

    driver.scheduler.schedule = watch  # type: ignore[method-assign]
    play(driver, script)
