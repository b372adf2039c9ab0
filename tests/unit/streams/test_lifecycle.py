"""The table of moves."""

from __future__ import annotations

import itertools

import pytest

from millstream.streams.lifecycle import MOVES, IllegalMove, Lifecycle, State


def at(state: State) -> Lifecycle:
    lifecycle = Lifecycle()
    lifecycle.state = state
    return lifecycle


@pytest.mark.parametrize(("origin", "to"), list(itertools.product(State, State)))
def test_exactly_the_moves_of_the_table_are_legal(origin: State, to: State) -> None:
    lifecycle = at(origin)
    if to in MOVES[origin]:
        lifecycle.move(to)
        assert lifecycle.state is to
    else:
        with pytest.raises(IllegalMove, match=f"{origin} → {to}"):
            lifecycle.move(to)
        assert lifecycle.state is origin


def test_a_stream_has_ended_once_its_outcome_is_decided() -> None:
    ended = {state for state in State if at(state).ended}
    assert ended == {State.GRACEFUL_STOPPING, State.CLOSED}
