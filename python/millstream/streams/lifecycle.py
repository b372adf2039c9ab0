"""The states of a stream and the moves between them."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a stream is between admission and release."""

    IDLE = "idle"  # made, nothing acquired yet
    HANDSHAKING = "handshaking"  # submitted to the engine, no record yet
    ACTIVE = "active"  # the first record has been seen
    DETACHED = "detached"  # the engine works on, the last reader has left and may come back
    GRACEFUL_STOPPING = "graceful_stopping"  # the outcome is settled, readers still drain
    CLOSED = "closed"  # nothing is held any more


MOVES: dict[State, frozenset[State]] = {
    State.IDLE: frozenset({State.HANDSHAKING, State.CLOSED}),
    State.HANDSHAKING: frozenset({State.ACTIVE, State.DETACHED, State.GRACEFUL_STOPPING}),
    State.ACTIVE: frozenset({State.DETACHED, State.GRACEFUL_STOPPING}),
    # Back to where it would be if nobody had left.
    State.DETACHED: frozenset({State.HANDSHAKING, State.ACTIVE, State.GRACEFUL_STOPPING}),
    State.GRACEFUL_STOPPING: frozenset({State.CLOSED}),
    State.CLOSED: frozenset(),
}


class IllegalMove(RuntimeError):
    """A move that the table does not allow: a defect in the caller, never bad input."""


class Lifecycle:
    """The current state of one stream; every change goes through `move`."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = State.IDLE

    def move(self, to: State) -> State:
        """Change the state and return the one before.

        Raises `IllegalMove` where `MOVES` has no such move.
        """
        origin = self.state
        if to not in MOVES[origin]:
            raise IllegalMove(f"{origin} → {to}")
        self.state = to
        return origin

    @property
    def ended(self) -> bool:
        """Whether the outcome is decided."""
        return self.state in (State.GRACEFUL_STOPPING, State.CLOSED)
