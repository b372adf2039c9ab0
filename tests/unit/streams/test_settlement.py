"""What a stream pays, however it ends, and what it says of that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream._core import Encoder, Reader
from millstream.types import Kind, Outcome, Settlement
from tests.unit.streams.parts import RESERVED, Bench

ERROR = '{"message":"m","type":"t","param":null,"code":"c"}'
LIMIT = 10 * RESERVED


def last_event(bench: Bench, stream: Any) -> dict[str, Any]:
    encoder = Encoder(
        dialect="native", framing="ndjson", chunk_id="c", model="m", created=0, metadata=True
    )
    *_, done = Reader(stream.log, encoder).take().splitlines()
    found: dict[str, Any] = json.loads(done)
    return found


def test_the_last_record_says_what_the_stream_was_charged() -> None:
    bench = Bench()
    stream = bench.started()
    bench.engine.token(1, "Hello")
    bench.engine.finish(1, tokens=3)
    settlement = Settlement(10, RESERVED, partial=False, remaining_tokens=LIMIT - 10)
    assert stream.settlement == settlement
    assert stream.recording.settlement == settlement
    assert last_event(bench, stream)["settled"] == {
        "charged": 10,
        "reserved": RESERVED,
        "partial": False,
        "remaining_tokens": LIMIT - 10,
    }


def test_while_it_runs_nobody_knows() -> None:
    stream = Bench().started()
    assert (stream.settlement, stream.recording.settlement) == (None, None)


@pytest.mark.parametrize("outcome", Outcome)
def test_only_an_answer_that_came_to_its_end_is_not_partial(outcome: Outcome) -> None:
    # litellm#14457: a cancelled stream lost all usage.
    bench = Bench()
    stream = bench.started()
    bench.engine.token(1, "Hel", count=40)
    stream.end(outcome)
    assert stream.settlement is not None
    assert stream.settlement.charged == 7 + 40 == bench.charged
    assert stream.settlement.partial is (outcome not in {Outcome.COMPLETED, Outcome.LENGTH})


def test_a_stream_given_up_before_its_first_token_pays_for_its_prompt() -> None:
    # litellm#35098: never 0.
    bench = Bench()
    stream = bench.started()
    stream.attach()
    stream.detach()
    assert stream.settlement == Settlement(7, RESERVED, partial=True, remaining_tokens=LIMIT - 7)


def test_branches_are_summed_and_what_is_left_is_left_once() -> None:
    bench = Bench()
    stream = bench.started(branches=2)
    bench.engine.token(1, "ab", count=2)
    bench.engine.finish(2, tokens=5)
    stream.end(Outcome.CANCELLED)
    assert stream.settlement == Settlement(
        7 + 2 + 7 + 5, 2 * RESERVED, partial=True, remaining_tokens=LIMIT - 21
    )


def test_an_upstream_that_fails_after_content_is_paid_for_what_it_sent() -> None:
    # litellm#39462: partial usage was lost when a stream failed after content.
    bench = Bench()
    stream = bench.started()
    bench.engine.token(1, "Hello", count=4)
    bench.engine.fail(1, ERROR)
    assert stream.outcome is Outcome.UPSTREAM_ERROR
    assert stream.settlement == Settlement(11, RESERVED, partial=True, remaining_tokens=LIMIT - 11)


def test_an_upstream_that_counts_and_then_fails_is_paid_by_its_count() -> None:
    bench = Bench()
    stream = bench.started()
    bench.engine.token(1, "Hello", count=4)
    usage = '{"prompt_tokens":9,"completion_tokens":6,"total_tokens":15}'
    stream.log.append(Kind.USAGE, usage, time_ns=1)
    bench.engine.fail(1, ERROR)
    assert bench.charged == 15


@pytest.mark.parametrize(
    "usage",
    [
        "none",
        "{}",
        '{"prompt_tokens":7}',
        '{"prompt_tokens":"7","completion_tokens":1}',
        '{"prompt_tokens":-7,"completion_tokens":1}',
    ],
)
def test_a_count_that_nobody_can_read_gives_way_to_our_own(usage: str) -> None:
    bench = Bench()
    stream = bench.started()
    bench.engine.token(1, "Hello", count=4)
    stream.log.append(Kind.USAGE, usage, time_ns=1)
    bench.engine.lose(1)
    assert (bench.charged, bench.leases) == (11, 0)
    assert stream.settlement is not None


def test_a_lease_that_expired_was_charged_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    stream = bench.started()
    monkeypatch.setattr(type(stream.lease), "settle", lambda _lease, _actual: False)
    stream.end(Outcome.CANCELLED)
    assert stream.settlement is not None
    assert stream.settlement.charged == RESERVED


def test_a_lease_that_cannot_be_settled_leaves_the_end_without_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(Exception):
        pass

    def refuse(_lease: object, _actual: int) -> bool:
        raise Broken

    bench = Bench()
    stream = bench.started()
    monkeypatch.setattr(type(stream.lease), "settle", refuse)
    with pytest.raises(Broken):
        stream.end(Outcome.CANCELLED)
    assert (stream.log.outcome, stream.log.settlement) == ("cancelled", None)
    assert "settled" not in last_event(bench, stream)


def test_the_engine_is_stopped_and_the_lease_settled_before_the_end_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    stream = bench.started()
    seen: list[tuple[str, bool]] = []
    abort, settle = bench.engine.abort, type(stream.lease).settle

    def aborting(request: int) -> None:
        seen.append(("abort", stream.log.closed))
        abort(request)

    def settling(lease: Any, actual: int) -> bool:
        seen.append(("settle", stream.log.closed))
        return settle(lease, actual)

    monkeypatch.setattr(bench.engine, "abort", aborting)
    monkeypatch.setattr(type(stream.lease), "settle", settling)
    stream.end(Outcome.CANCELLED)
    assert seen == [("abort", False), ("settle", False)]
    assert stream.log.closed
