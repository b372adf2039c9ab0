"""Several requests in one stream: what a log knows of each of them."""

from __future__ import annotations

import os

import pytest

from millstream import _core
from millstream.types import Kind


def test_tallies_are_kept_by_branch() -> None:
    log = _core.Log(branches=3)
    for branch, tokens, at in [(0, 1, 100), (2, 5, 110), (0, 2, 130)]:
        log.append(Kind.TOKEN, "x", branch=branch, token_count=tokens, time_ns=at)
    assert [log.token_count_of(branch) for branch in range(3)] == [3, 0, 5]
    assert [log.first_token_ns_of(branch) for branch in range(3)] == [100, None, 110]
    assert [log.last_token_ns_of(branch) for branch in range(3)] == [130, None, 110]
    assert [log.inter_token_sum_ns_of(branch) for branch in range(3)] == [30, 0, 0]
    assert [sum(log.inter_token_counts(branch)) for branch in range(3)] == [2, 0, 0]
    assert (log.branches, log.token_count, log.first_token_ns, log.last_token_ns) == (
        3,
        8,
        100,
        130,
    )


def test_texts_and_endings_are_kept_by_branch() -> None:
    log = _core.Log(branches=2)
    for branch, text in [(0, "a"), (1, "x"), (0, "b")]:
        log.append(Kind.TOKEN, text, branch=branch, time_ns=1)
    log.append(Kind.FINISH, "stop", branch=1, time_ns=1)
    log.append(Kind.USAGE, '{"a":1}', branch=1, time_ns=1)
    log.append(Kind.BRANCH_END, "completed", branch=1, time_ns=1)
    log.append(Kind.ERROR, '{"b":2}', branch=0, time_ns=1)
    log.append(Kind.BRANCH_END, "upstream_error", branch=0, time_ns=1)
    assert (log.text(), log.text(branch=1), log.text(choice=1, branch=1)) == ("ab", "x", "")
    assert (log.finish_reason(), log.finish_reason(branch=1)) == (None, "stop")
    assert (log.usage_of(0), log.usage_of(1), log.usage) == (None, '{"a":1}', None)
    assert (log.error_of(0), log.error_of(1), log.error) == ('{"b":2}', None, '{"b":2}')
    assert (log.outcome_of(0), log.outcome_of(1)) == ("upstream_error", "completed")
    assert (log.outcome, log.closed) == (None, False)


def test_the_error_of_the_stream_is_the_one_that_came_last() -> None:
    log = _core.Log(branches=2)
    log.append(Kind.ERROR, '"zero"', branch=0, time_ns=1)
    log.append(Kind.ERROR, '"one"', branch=1, time_ns=1)
    assert log.error == '"one"'


def test_the_only_branch_has_no_end_of_its_own() -> None:
    log = _core.Log()
    log.close("completed", time_ns=1)
    assert (log.outcome, log.outcome_of()) == ("completed", None)


def test_a_branch_that_the_stream_does_not_have_is_refused() -> None:
    log = _core.Log(branches=2)
    with pytest.raises(ValueError, match="no branch 2 in a stream of 2"):
        log.append(Kind.TOKEN, "x", branch=2, time_ns=1)
    assert (log.tail, log.token_count_of(2), log.usage_of(2)) == (0, 0, None)


@pytest.mark.parametrize("branches", [0, 257])
def test_impossible_numbers_of_branches_are_refused(branches: int) -> None:
    with pytest.raises(ValueError, match="branches must be between 1 and 256"):
        _core.Log(branches=branches)


class Rig:
    """A ring with both ends here, and a hub."""

    def __init__(self) -> None:
        ring = _core.RingConsumer.create()
        self.producer = _core.RingProducer(os.dup(ring.memory_fd()), os.dup(ring.notify_fd()))
        self.hub = _core.Hub(ring)

    def write(self, request: int, kind: int, text: str) -> list[int]:
        self.producer.write(request, kind, text, token_count=1, time_ns=1)
        self.producer.flush()
        return self.hub.drain()[1]


def test_requests_write_to_their_branch() -> None:
    rig, log = Rig(), _core.Log(branches=2)
    rig.hub.attach(7, log, 1)
    rig.hub.attach(8, log)
    rig.write(7, Kind.TOKEN, "seven")
    rig.write(8, Kind.TOKEN, "eight")
    assert (log.text(branch=1), log.text(branch=0)) == ("seven", "eight")


def test_a_request_cannot_be_attached_to_an_unknown_branch() -> None:
    hub, log = Rig().hub, _core.Log()
    with pytest.raises(ValueError, match="no branch 1"):
        hub.attach(7, log, 1)
    assert hub.attached == 0


@pytest.mark.parametrize("kind", [Kind.END, Kind.HANDOVER, Kind.BRANCH_END])
def test_an_engine_cannot_write_what_is_the_owners_to_say(kind: Kind) -> None:
    rig, log = Rig(), _core.Log()
    rig.hub.attach(7, log)
    assert rig.write(7, kind, "completed") == []
    assert (log.tail, log.outcome, log.outcome_of(), rig.hub.dropped) == (0, None, None, 1)
    assert rig.write(7, Kind.USAGE, "{}") == [7]
    assert (log.tail, rig.hub.dropped) == (1, 1)
