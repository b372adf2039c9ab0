"""Order, budgets, sharing, preemption and aborts of the scheduler, on a runner twin."""

from __future__ import annotations

import pytest

from millstream.engines.torch.scheduler import Step
from millstream.engines.torch.sequence import Phase
from millstream.errors import ContextLengthExceeded, InvalidParameter
from tests.reference.driver import Driver, expected_output


def shape(step: Step | None) -> list[int]:
    """Tokens that each row of a step computes; 0 for a decode."""
    assert step is not None
    return [len(row.tokens) for row in step.batch.rows]


def test_a_request_runs_to_max_tokens_and_gives_everything_back() -> None:
    driver = Driver()
    request = driver.add("a", range(10), max_tokens=7)
    driver.run()
    assert request.choices[0].output == expected_output(request.choices[0])
    assert (driver.pool.used, driver.runner.open_slots) == (0, 0)


def test_a_long_prompt_is_computed_in_chunks_beside_the_decodes() -> None:
    driver = Driver(max_step_tokens=8)
    driver.add("short", [1, 2], max_tokens=9)
    assert shape(driver.step()) == [2]
    driver.add("long", range(20), max_tokens=2)
    assert [shape(driver.step()) for _ in range(4)] == [[0, 7], [0, 7], [0, 6], [0, 0]]


def test_admission_is_first_come_first_served_even_if_a_later_one_would_fit() -> None:
    driver = Driver(num_pages=20, max_batch=8, max_step_tokens=64, expected_output=1)
    driver.add("big", range(40), max_tokens=8)
    driver.add("huge", range(100, 140), max_tokens=8)
    driver.add("small", [1], max_tokens=1)
    driver.step()
    assert [one.request.key for one in driver.scheduler.running] == ["big"]
    driver.run()
    assert [key for key, _ in driver.ends] == ["big", "small", "huge"]


def test_max_batch_bounds_the_running_sequences() -> None:
    driver = Driver(num_pages=64, max_batch=2, max_step_tokens=64)
    for key in range(5):
        driver.add(key, [key], max_tokens=3)
    driver.step()
    assert (len(driver.scheduler.running), len(driver.scheduler.waiting)) == (2, 3)
    driver.run()
    assert [key for key, _ in driver.ends] == [0, 1, 2, 3, 4]


def test_choices_of_one_request_share_the_full_pages_of_the_prompt() -> None:
    driver = Driver(num_pages=32, max_step_tokens=64)
    request = driver.add("a", range(18), n=3, max_tokens=5, seed=3)
    assert shape(driver.step()) == [18, 2, 2]
    tables = [choice.block_table for choice in request.choices]
    assert tables[0][:4] == tables[1][:4] == tables[2][:4]
    assert len({table[4] for table in tables}) == 3
    driver.run()
    outputs = [choice.output for choice in request.choices]
    assert outputs == [expected_output(choice) for choice in request.choices]
    assert len({tuple(output) for output in outputs}) == 3


def test_a_prompt_seen_before_is_not_computed_again() -> None:
    driver = Driver()
    driver.add("first", range(16), max_tokens=1)
    driver.run()
    again = driver.add("again", range(16), max_tokens=2)
    assert shape(driver.step()) == [4]
    driver.run()
    assert again.choices[0].output == expected_output(again.choices[0])


def test_a_conversation_reuses_the_pages_of_its_answer() -> None:
    driver = Driver()
    first = driver.add("first", range(6), max_tokens=11)
    driver.run()
    turn = [*range(6), *first.choices[0].output, 1, 2]
    driver.add("second", turn, max_tokens=1)
    assert shape(driver.step()) == [len(turn) - 16]


def test_the_sequence_that_loses_least_is_preempted_and_ends_as_if_alone() -> None:
    driver = Driver(num_pages=8, expected_output=1)
    long = driver.add("long", range(9), max_tokens=20)
    short = driver.add("short", range(50, 53), max_tokens=20)
    driver.run()
    assert driver.scheduler.preemptions > 0
    assert driver.ends == [("long", 0), ("short", 0)]
    for request in (long, short):
        assert request.choices[0].output == expected_output(request.choices[0])


def test_a_preempted_sequence_goes_back_to_its_place_in_the_queue() -> None:
    driver = Driver(num_pages=8, expected_output=1)
    driver.add("long", range(9), max_tokens=20)
    driver.add("short", range(50, 53), max_tokens=20)
    while not driver.scheduler.preemptions:
        driver.step()
        if "late" not in {one.request.key for one in driver.scheduler.waiting}:
            driver.add("late", range(70, 75), max_tokens=1)
    assert driver.scheduler.waiting[0].request.key == "short"


def test_admission_keeps_pages_for_the_expected_output_and_the_watermark() -> None:
    # 40 pages: 2 are the watermark; each sequence expects 3 prompt and 10 output pages.
    driver = Driver(num_pages=40, max_batch=8, max_step_tokens=256, expected_output=40)
    for key in range(4):
        driver.add(key, range(key * 100, key * 100 + 12), max_tokens=100)
    driver.step()
    assert len(driver.scheduler.running) == 2


def test_the_expected_output_follows_what_finished_sequences_needed() -> None:
    driver = Driver(num_pages=40, max_batch=8, max_step_tokens=256, expected_output=100)
    for key in range(60):
        driver.add(("before", key), [key], max_tokens=4)
    driver.run()
    for key in range(3):
        driver.add(key, range(key * 100, key * 100 + 12), max_tokens=100)
    driver.step()
    assert len(driver.scheduler.running) == 3


@pytest.mark.parametrize("length", [40, 41])
def test_a_prompt_that_leaves_no_room_in_the_context_is_refused(length: int) -> None:
    driver = Driver(context_length=40)
    with pytest.raises(ContextLengthExceeded, match=f"has {length} tokens.*at most 40"):
        driver.add("a", range(length), max_tokens=1)
    assert not driver.busy


def test_a_prompt_larger_than_the_whole_cache_is_refused_and_harms_nobody() -> None:
    # huggingface/transformers continuous batching: one such prompt ends the engine for everyone.
    driver = Driver(num_pages=8)
    other = driver.add("other", range(20), max_tokens=5)
    with pytest.raises(ContextLengthExceeded):
        driver.add("huge", range(32), max_tokens=1)
    driver.run()
    assert other.choices[0].output == expected_output(other.choices[0])


@pytest.mark.parametrize(
    ("prompt", "params"),
    [([], {"max_tokens": 1}), ([1], {"max_tokens": 0}), ([1], {"max_tokens": 1, "n": 0})],
)
def test_a_request_with_nothing_to_compute_is_refused(
    prompt: list[int], params: dict[str, int]
) -> None:
    driver = Driver()
    with pytest.raises(InvalidParameter):
        driver.add("a", prompt, **params)


def test_output_stops_at_the_context_length() -> None:
    driver = Driver(context_length=12)
    request = driver.add("a", range(9), max_tokens=50)
    driver.run()
    assert len(request.choices[0].output) == 3


def test_one_sequence_may_fill_the_whole_cache() -> None:
    driver = Driver(num_pages=8)
    request = driver.add("a", range(9), max_tokens=1000)
    driver.run()
    assert len(request.choices[0].output) == 8 * 4 - 9
    assert request.choices[0].output == expected_output(request.choices[0])


def test_abort_while_waiting_leaves_the_queue() -> None:
    driver = Driver(max_batch=1)
    driver.add("first", range(4), max_tokens=2)
    driver.step()
    waiting = driver.add("waiting", range(4), max_tokens=2)
    driver.scheduler.abort(waiting)
    assert not driver.scheduler.waiting
    driver.run()
    assert driver.ends == [("first", 0)]


def test_abort_in_the_middle_of_a_prefill_frees_its_pages() -> None:
    driver = Driver(max_step_tokens=8)
    request = driver.add("a", range(30), max_tokens=2)
    driver.step()
    assert request.choices[0].prefilling
    driver.scheduler.abort(request)
    assert (driver.pool.used, driver.runner.open_slots, driver.busy) == (0, 0, False)


@pytest.mark.parametrize("overlap", [False, True])
def test_abort_while_decoding_frees_every_choice_before_the_next_step(overlap: bool) -> None:
    driver = Driver(num_pages=32, overlap=overlap)
    request = driver.add("a", range(9), n=3, max_tokens=20)
    for _ in range(4):
        driver.step()
    driver.scheduler.abort(request)
    assert driver.pool.used == 0
    driver.scheduler.abort(request)
    driver.run()
    assert driver.ends == []
    assert all(choice.phase is Phase.FINISHED for choice in request.choices)


def test_a_request_that_the_runner_refuses_fails_alone() -> None:
    driver = Driver()
    bad = driver.add("bad", range(5), n=2, max_tokens=3, temperature=-1.0)
    good = driver.add("good", range(5), max_tokens=3)
    driver.run()
    [(failed, error)] = driver.scheduler.failed
    assert failed is bad
    assert "temperature below 0" in str(error)
    assert good.choices[0].output == expected_output(good.choices[0])
    assert driver.pool.used == 0


def test_a_preemption_with_ids_in_flight_is_refused() -> None:
    driver = Driver()
    [choice] = driver.add("a", range(9), max_tokens=20).choices
    driver.step()
    choice.output += [1, 2, 3]
    choice.in_flight = 1
    driver.pool.allocate(driver.pool.free)
    assert driver.scheduler.short_of_pages
    with pytest.raises(RuntimeError, match="must be settled"):
        driver.scheduler.schedule()


def test_a_preemption_with_ids_in_flight_is_announced_so_that_they_can_be_settled() -> None:
    driver = Driver(num_pages=8, expected_output=1, overlap=True)
    long = driver.add("long", range(9), max_tokens=20)
    short = driver.add("short", range(50, 53), max_tokens=20)
    driver.run()
    assert driver.scheduler.preemptions > 0
    for request in (long, short):
        assert request.choices[0].output == expected_output(request.choices[0])
