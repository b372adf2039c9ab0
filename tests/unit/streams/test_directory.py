"""Streams by their name, and whose they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from millstream._core import Log
from millstream.store import BranchDescriptor, Descriptor, Recording
from millstream.streams.directory import Directory
from millstream.streams.hub import Wakeups
from millstream.types import Kind, Outcome
from tests.unit.streams.parts import SECOND, Bench


@pytest.fixture
async def wakeups() -> AsyncIterator[Wakeups]:
    made = Wakeups()
    yield made
    made.close()


def elsewhere(bench: Bench, *, tenant: str = "default", branches: int = 1) -> Recording:
    """A stream that another process generates."""
    descriptor = Descriptor(
        id="far",
        tenant=tenant,
        route="r",
        dialect="chat",
        created=7,
        branches=(BranchDescriptor(model="m", chunk_id="c"),) * branches,
    )
    recording = Recording(descriptor, Log(branches=branches))
    bench.store.elsewhere["far"] = recording
    return recording


def directory_of(bench: Bench, wakeups: Wakeups, *, patience_seconds: float = 60) -> Directory:
    return Directory(bench.registry, bench.store, wakeups, patience_seconds=patience_seconds)


async def test_a_stream_is_found_while_it_lives_and_while_it_is_kept(wakeups: Wakeups) -> None:
    bench = Bench()
    directory = directory_of(bench, wakeups)
    stream = bench.started(grace_ns=SECOND)
    assert await directory.find(stream.id, "default") is stream
    bench.engine.finish(1)
    assert await directory.find(stream.id, "default") is stream.recording


async def test_a_plain_stream_is_found_by_nobody(wakeups: Wakeups) -> None:
    bench = Bench()
    stream = bench.started()
    assert await directory_of(bench, wakeups).find(stream.id, "default") is None


async def test_another_tenants_stream_is_as_unknown_as_one_that_never_was(
    wakeups: Wakeups,
) -> None:
    # GHSA-84j6-jc92-77jm: a replay crossed sessions.
    bench = Bench()
    directory = directory_of(bench, wakeups)
    live = bench.started(grace_ns=SECOND, tenant="acme", request=1)
    kept = bench.started(grace_ns=SECOND, tenant="acme", request=2)
    bench.engine.finish(2)
    elsewhere(bench, tenant="acme")
    for name in (live.id, kept.id, "far", "never"):
        assert await directory.find(name, "default") is None
        assert await directory.cancel(name, "default") is None
    assert (live.outcome, bench.store.cancelled) == (None, [])
    assert await directory.find(live.id, "acme") is live


async def test_cancelling_works_on_any_stream_and_says_how_it_ended(wakeups: Wakeups) -> None:
    # vercel/ai#6502: stopping must work from any connection.
    bench = Bench()
    directory = directory_of(bench, wakeups)
    plain = bench.started(request=1)
    plain.attach()
    assert await directory.cancel(plain.id, "default") is Outcome.CANCELLED
    assert await directory.cancel(plain.id, "default") is Outcome.CANCELLED
    done = bench.started(request=2, grace_ns=SECOND)
    bench.engine.finish(2)
    assert await directory.cancel(done.id, "default") is Outcome.COMPLETED


async def test_one_branch_can_be_cancelled_by_its_number(wakeups: Wakeups) -> None:
    bench = Bench()
    directory = directory_of(bench, wakeups)
    stream = bench.started(branches=2, grace_ns=SECOND)
    assert await directory.cancel(stream.id, "default", 1) is Outcome.CANCELLED
    assert (stream.outcome, stream.branches[0].outcome) == (None, None)
    assert await directory.cancel(stream.id, "default", 2) is None
    bench.engine.finish(1)
    assert await directory.cancel(stream.id, "default", 0) is Outcome.COMPLETED


async def test_a_stream_elsewhere_is_cancelled_there_and_its_end_awaited(
    wakeups: Wakeups,
) -> None:
    bench = Bench()
    recording = elsewhere(bench)
    cancelling = asyncio.ensure_future(directory_of(bench, wakeups).cancel("far", "default"))
    await asyncio.sleep(0)
    assert bench.store.cancelled == [("far", None)]
    assert recording.readers == 1
    recording.log.append(Kind.TOKEN, "late", time_ns=1)
    recording.log.close(Outcome.COMPLETED, time_ns=1)
    assert await cancelling is Outcome.COMPLETED
    assert recording.readers == 0


async def test_a_branch_elsewhere_is_awaited_alone(wakeups: Wakeups) -> None:
    bench = Bench()
    recording = elsewhere(bench, branches=2)
    cancelling = asyncio.ensure_future(directory_of(bench, wakeups).cancel("far", "default", 1))
    await asyncio.sleep(0)
    recording.log.append(Kind.BRANCH_END, "length", branch=1, time_ns=1)
    assert await cancelling is Outcome.LENGTH
    assert bench.store.cancelled == [("far", 1)]


async def test_a_producer_that_does_not_answer_does_not_keep_the_client(wakeups: Wakeups) -> None:
    bench = Bench()
    elsewhere(bench)
    directory = directory_of(bench, wakeups, patience_seconds=0)
    assert await directory.cancel("far", "default") is Outcome.CANCELLED


async def test_what_a_client_has_seen_elsewhere_is_waited_for(wakeups: Wakeups) -> None:
    bench = Bench()
    recording = elsewhere(bench)
    directory = directory_of(bench, wakeups)
    finding = asyncio.ensure_future(directory.find("far", "default", reaching=2))
    for _ in range(2):
        await asyncio.sleep(0)
        assert not finding.done()
        recording.log.append(Kind.TOKEN, "a", time_ns=1)
    assert await finding is recording
    assert await directory.find("far", "default", reaching=1) is recording


async def test_what_never_comes_is_not_waited_for_without_end(wakeups: Wakeups) -> None:
    bench = Bench()
    recording = elsewhere(bench)
    hasty = directory_of(bench, wakeups, patience_seconds=0)
    assert await hasty.find("far", "default", reaching=9) is recording
    recording.log.close(Outcome.ENGINE_LOST, time_ns=1)
    patient = directory_of(bench, wakeups)
    assert await patient.find("far", "default", reaching=9) is recording
