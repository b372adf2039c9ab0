"""Token ranges, page keys and progress of a sequence."""

from __future__ import annotations

import pytest

from millstream.engines.torch.pages import page_key
from millstream.engines.torch.sequence import Phase, Request, Sequence
from millstream.types import SamplingParams


def sequence(prompt: list[int], output: list[int], *, choice: int = 0) -> Sequence:
    request = Request("key", prompt, SamplingParams(max_tokens=9), seed=7)
    made = Sequence(request, choice, arrival=0, max_length=len(prompt) + 9, output=output)
    request.choices.append(made)
    return made


@pytest.mark.parametrize("start", range(5))
@pytest.mark.parametrize("end", range(5))
def test_tokens_are_a_slice_of_prompt_and_output(start: int, end: int) -> None:
    made = sequence([1, 2], [3, 4])
    if start <= end:
        assert made.tokens(start, end) == [1, 2, 3, 4][start:end]


def test_page_keys_chain_over_prompt_and_output() -> None:
    made = sequence([1, 2, 3], [4])
    first = page_key(b"", [1, 2])
    assert made.keys(1, 2) == [first]
    assert made.keys(2, 2) == [first, page_key(first, [3, 4])]


def test_a_token_in_flight_counts_but_is_not_known() -> None:
    made = sequence([1], [2])
    made.in_flight = 1
    assert (made.num_known_tokens, made.num_tokens) == (2, 3)


def test_a_sequence_is_full_when_the_token_in_flight_is_its_last() -> None:
    made = sequence([1], list(range(8)))
    assert made.decoding
    made.in_flight = 1
    assert made.full
    assert not made.decoding


def test_each_choice_has_the_request_seed_plus_its_index() -> None:
    assert [sequence([1], [], choice=choice).seed for choice in range(3)] == [7, 8, 9]


def test_a_request_is_finished_when_its_last_choice_is() -> None:
    made = sequence([1], [2, 3])
    other = Sequence(made.request, 1, arrival=1, max_length=9, output=[4])
    made.request.choices.append(other)
    made.phase = Phase.FINISHED
    assert not made.request.finished
    other.phase = Phase.FINISHED
    assert made.request.finished
    assert made.request.completion_tokens == 3
