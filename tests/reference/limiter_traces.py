"""What a trace of a limiter is, and how one is played on any limiter, here or behind a network.

A trace is data: scopes, and steps of (time, operation, arguments, expected). `play` is a generator
that gives out calls and takes in answers, so that the same trace runs on a limiter that is called
and on one that is awaited.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict

from tests.reference.limiter_key import Dimension, Quota

Operation = Literal["reserve", "take", "settle", "cancel", "undo", "renew", "peek", "retry"]

ORIGIN_NS = 24 * 3_600 * 1_000_000_000
"""When a trace starts if nobody says otherwise: far enough from 0 to step back."""


class Arguments(TypedDict, total=False):
    """What a call is given; ``only`` names the scopes where not all of the trace are meant."""

    only: tuple[str, ...]
    tokens: int
    requests: int
    prompt: int
    kibibytes: int
    lease: str
    actual: int
    emitted: int


class Refused(NamedTuple):
    """A refusal; None where the trace says nothing about it."""

    dimension: Dimension | None = None
    scope: str | None = None
    permanent: bool | None = None
    wait_ns: int | None = None


class Left(NamedTuple):
    """What peek must show as remaining; None where the trace says nothing about it."""

    requests: int | None = None
    tokens: int | None = None
    concurrency: int | None = None
    bytes: int | None = None


class Counted(NamedTuple):
    """How many of a step's calls are admitted."""

    least: int
    most: int


Expected = bool | Refused | Left | Counted | type[ValueError]
Answer = bool | Refused | Left | type[ValueError]
"""True for a lease, for what was taken and for an ending; False for a second ending."""


class Step(NamedTuple):
    """``at_ns`` counts from the origin; several of them are as many calls, which are counted.

    ``retry`` makes the last refused call again a moment before its wait is over, which must be
    refused, and when it is over, which must be admitted: that moment is then the origin.
    """

    at_ns: int | tuple[int, ...]
    operation: Operation
    arguments: Arguments
    expected: Expected


@dataclass(frozen=True, slots=True)
class Trace:
    """A named story; ``reports`` are the repositories and issues that told it first."""

    title: str
    reports: tuple[str, ...]
    scopes: Mapping[str, Quota]
    steps: tuple[Step, ...]

    @property
    def id(self) -> str:
        """The title and the reports, as the name of a test."""
        return f"{self.title} [{' '.join(self.reports)}]"


class Call(NamedTuple):
    """One call of a trace, with the time in full.

    ``take`` may be played as a reservation that is settled at its cost at once.
    """

    now_ns: int
    operation: Operation
    scopes: tuple[tuple[str, Quota], ...]
    arguments: Arguments


def play(
    trace: Trace, *, origin_ns: int = ORIGIN_NS, resolution_ns: int = 1
) -> Generator[Call, Answer, None]:
    """Gives out the calls of a trace and checks their answers; AssertionError for a wrong one.

    ``resolution_ns`` is the step in which the limiter under test counts its time.
    """
    refused: tuple[Call, int] | None = None
    for number, step in enumerate(trace.steps):
        where = f"{trace.id}, step {number}"
        if step.operation == "retry":
            assert refused is not None, f"{where}: nothing was refused"
            origin_ns = yield from _retry(*refused, resolution_ns, where)
            continue
        answers = []
        for at_ns in (step.at_ns,) if isinstance(step.at_ns, int) else step.at_ns:
            call = Call(origin_ns + at_ns, step.operation, _scopes(trace, step), step.arguments)
            answers.append((yield call))
            if isinstance(answers[-1], Refused):
                refused = call, answers[-1].wait_ns or 0
        _check(step.expected, answers, resolution_ns, where)


def _retry(
    call: Call, wait_ns: int, resolution_ns: int, where: str
) -> Generator[Call, Answer, int]:
    ready_ns = call.now_ns + wait_ns
    assert wait_ns > 0, f"{where}: no wait"
    early = yield call._replace(now_ns=ready_ns - resolution_ns)
    assert isinstance(early, Refused), f"{where}: {early} before the wait was over"
    late = yield call._replace(now_ns=ready_ns)
    assert late is True, f"{where}: {late} when the wait was over"
    return ready_ns


def drive(trace: Trace, perform: Callable[[Call], Answer], **options: int) -> None:
    """Plays a trace on a limiter that is called."""
    player = play(trace, **options)
    call = next(player, None)
    while call is not None:
        call = _next(player, perform(call))


async def drive_async(
    trace: Trace, perform: Callable[[Call], Awaitable[Answer]], **options: int
) -> None:
    """Plays a trace on a limiter that is awaited."""
    player = play(trace, **options)
    call = next(player, None)
    while call is not None:
        call = _next(player, await perform(call))


def _next(player: Generator[Call, Answer, None], answer: Answer) -> Call | None:
    try:
        return player.send(answer)
    except StopIteration:
        return None


def _scopes(trace: Trace, step: Step) -> tuple[tuple[str, Quota], ...]:
    only = step.arguments.get("only", tuple(trace.scopes))
    return tuple((key, trace.scopes[key]) for key in only)


def _check(expected: Expected, answers: list[Any], resolution_ns: int, where: str) -> None:
    if isinstance(expected, Counted):
        admitted = answers.count(True)
        assert expected.least <= admitted <= expected.most, f"{where}: {admitted}, not {expected}"
        return
    if isinstance(expected, Refused) and expected.wait_ns is not None:
        wait_ns = -(-expected.wait_ns // resolution_ns) * resolution_ns
        expected = expected._replace(wait_ns=wait_ns)
    for answer in answers:
        assert _agrees(expected, answer), f"{where}: {answer}, not {expected}"


def _agrees(expected: Expected, answer: Any) -> bool:
    if not isinstance(expected, Refused | Left):
        return answer is expected
    return type(answer) is type(expected) and all(
        wanted is None or wanted == found for wanted, found in zip(expected, answer, strict=True)
    )
