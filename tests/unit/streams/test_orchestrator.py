"""From a checked request to a stream, or to a refusal that leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millstream.admission import Refusal
from millstream.config import StreamPolicy
from millstream.errors import CostExceedsLimit, EngineUnavailable, NotAllowed
from millstream.streams.branch import Deadlines
from millstream.streams.drain import Drain
from millstream.streams.orchestrator import BranchRequest, Generation, Orchestrator
from millstream.streams.stream import Stream
from millstream.types import Kind, Outcome, SamplingParams
from tests.unit.streams.parts import RESERVED, SECOND, Bench


class Rig:
    """An orchestrator over a bench's engine, limiter and registry."""

    def __init__(self, permitted: Callable[[Generation], None] = lambda _: None) -> None:
        self.bench = Bench()
        self.heard, self.store = self.bench.heard, self.bench.store
        self.drain = Drain(self.bench.registry, seconds=1, shared=False, clock=lambda: 0)
        self.orchestrator = Orchestrator(
            registry=self.bench.registry,
            admission=self.bench.admission,
            drain=self.drain,
            observer=self.heard,
            store=self.store,
            clock=lambda: 5 * SECOND,
            wall_clock=lambda: 1_700_000_000 * SECOND,
            permitted=permitted,
        )

    async def open(self, **asked: Any) -> Stream | Refusal:
        return await self.orchestrator.open(self.generation(**asked))

    def generation(
        self,
        *,
        prompt: int = 10,
        max_tokens: int = 20,
        n: int = 1,
        branches: int = 1,
        streamed: bool = True,
        **options: Any,
    ) -> Generation:
        branch = BranchRequest(
            model="m",
            engine=self.bench.engine,
            prompt=[1] * prompt,
            params=SamplingParams(max_tokens=max_tokens, n=n),
            deadlines=Deadlines(total_ns=SECOND),
        )
        return Generation(
            route="chat.completion",
            dialect="chat",
            id_prefix="chatcmpl-",
            branches=(branch,) * branches,
            streamed=streamed,
            policy=StreamPolicy(max_bytes=4096, max_records=16, detach_grace_seconds=3),
            **options,
        )

    async def stream(self, **asked: Any) -> Stream:
        opened = await self.open(**asked)
        assert isinstance(opened, Stream)
        return opened


async def test_a_stream_is_admitted_registered_and_submitted() -> None:
    rig = Rig()
    stream = await rig.stream()
    assert list(rig.bench.registry) == [stream]
    (branch,) = stream.branches
    assert rig.bench.engine.logs == {branch.request: stream.log}
    assert (branch.prompt_tokens, stream.admitted_ns) == (10, 5 * SECOND)
    assert branch.deadlines == Deadlines(total_ns=SECOND)
    assert rig.heard.events == [("admitted", None)]


@pytest.mark.parametrize(("n", "reserved"), [(1, 30), (3, 70)])
async def test_the_prompt_is_reserved_once_and_the_output_for_each_choice(
    n: int, reserved: int
) -> None:
    rig = Rig()
    await rig.stream(n=n)
    assert rig.bench.charged == reserved


async def test_streams_have_names_that_cannot_be_guessed_and_numbers_that_do_not_repeat() -> None:
    rig = Rig()
    streams = [await rig.stream() for _ in range(5)]
    assert len({stream.id for stream in streams}) == 5
    assert all(len(stream.id) >= 22 for stream in streams)  # 128 bits and more
    assert len({stream.branches[0].request for stream in streams}) == 5


async def test_the_log_keeps_what_the_settings_say() -> None:
    stream = await Rig().stream()
    for _ in range(40):
        stream.log.append(Kind.TOKEN, "a", time_ns=1)
    assert stream.log.tail - stream.log.oldest + 1 == 16


async def test_a_whole_answer_may_be_longer_than_the_log_of_a_stream() -> None:
    # It was generated to its end and then answered with a 500, since its beginning was gone.
    stream = await Rig().stream(streamed=False)
    for number in range(50):
        stream.log.append(Kind.TOKEN, f"{number:04}" * 100, time_ns=1)
    assert stream.log.text() == "".join(f"{number:04}" * 100 for number in range(50))


async def test_a_refusal_leaves_nothing_behind() -> None:
    rig = Rig()
    await rig.stream(prompt=1, max_tokens=10 * RESERVED - 1)
    refusal = await rig.open()
    assert isinstance(refusal, Refusal)
    assert refusal.dimension == "tokens"
    assert len(rig.bench.registry) == len(rig.bench.engine.logs) == 1


async def test_a_cost_that_could_never_be_granted_is_said_at_once() -> None:
    rig = Rig()
    with pytest.raises(CostExceedsLimit, match="1010 tokens"):
        await rig.open(max_tokens=10 * RESERVED)
    assert rig.bench.leases == 0


async def test_an_engine_that_went_away_costs_the_client_nothing() -> None:
    rig = Rig()
    rig.bench.engine.ready = False
    with pytest.raises(EngineUnavailable):
        await rig.open()
    assert (rig.bench.charged, rig.bench.leases, len(rig.bench.registry)) == (0, 0, 0)
    assert rig.heard.events == [("admitted", None), ("closed", None)]


async def test_a_server_that_leaves_takes_no_more() -> None:
    rig = Rig()
    rig.drain.begin()
    with pytest.raises(EngineUnavailable, match="shutting down"):
        await rig.open()
    assert rig.heard.events == []


async def test_what_is_not_permitted_any_more_costs_nothing() -> None:
    def gone(generation: Generation) -> None:
        raise NotAllowed(f"There is no {generation.tenant}.")

    rig = Rig(gone)
    with pytest.raises(NotAllowed, match="default"):
        await rig.open()
    assert (rig.bench.charged, rig.bench.leases, rig.heard.events) == (0, 0, [])


async def test_a_stream_that_ends_is_forgotten_once_its_reader_is_gone() -> None:
    rig = Rig()
    stream = await rig.stream()
    stream.attach()
    rig.bench.engine.finish(stream.branches[0].request, tokens=3)
    assert rig.heard.events == [("admitted", None)]
    stream.detach()
    assert len(rig.bench.registry) == 0
    assert rig.heard.events == [("admitted", None), ("closed", Outcome.COMPLETED)]
    assert rig.bench.charged == 10


async def test_of_several_branches_all_are_admitted_or_none() -> None:
    rig = Rig()
    await rig.stream(prompt=1, max_tokens=8 * RESERVED - 1)
    refusal = await rig.open(prompt=1, max_tokens=RESERVED - 1, branches=3)
    assert isinstance(refusal, Refusal)
    assert (rig.bench.charged, rig.bench.leases) == (8 * RESERVED, 1)
    assert len(rig.bench.engine.logs) == 1
    await rig.stream(prompt=1, max_tokens=RESERVED - 1, branches=2)
    assert rig.bench.leases == 3


async def test_branches_that_could_never_be_granted_together_are_refused_for_good() -> None:
    rig = Rig()
    with pytest.raises(CostExceedsLimit, match="1200 tokens together"):
        await rig.open(prompt=1, max_tokens=3 * RESERVED - 1, branches=4)
    with pytest.raises(CostExceedsLimit, match="11 open streams together"):
        await rig.open(prompt=1, max_tokens=1, branches=11)
    assert (rig.bench.charged, rig.bench.leases) == (0, 0)


async def test_chunk_ids_name_the_stream_and_of_several_the_branch() -> None:
    rig = Rig()
    one, two = await rig.stream(), await rig.stream(branches=2)
    assert [branch.chunk_id for branch in one.descriptor.branches] == [f"chatcmpl-{one.id}"]
    assert [branch.chunk_id for branch in two.descriptor.branches] == [
        f"chatcmpl-{two.id}-0",
        f"chatcmpl-{two.id}-1",
    ]
    assert two.log.branches == 2


@pytest.mark.parametrize(
    ("asked", "retained", "grace_ns"),
    [
        ({}, False, 0),
        ({"resumable": True}, True, 3 * SECOND),
        ({"retained": True}, True, 3 * SECOND),
        ({"background": True}, True, None),
    ],
)
async def test_what_outlives_its_connection_is_made_known_and_kept(
    asked: dict[str, bool], retained: bool, grace_ns: int | None
) -> None:
    rig = Rig()
    stream = await rig.stream(**asked)
    assert (stream.retained, stream.grace_ns) == (retained, grace_ns)
    assert rig.store.published == ({stream.id: stream} if retained else {})
    rig.bench.engine.finish(stream.branches[0].request)
    assert rig.store.kept == ({stream.id: stream.recording} if retained else {})


async def test_a_stream_that_did_not_start_is_not_made_known() -> None:
    rig = Rig()
    rig.bench.engine.ready = False
    with pytest.raises(EngineUnavailable):
        await rig.open(resumable=True)
    assert (rig.store.published, rig.store.kept) == ({}, {})


async def test_the_store_can_cancel_what_it_was_given() -> None:
    rig = Rig()
    stream = await rig.stream(resumable=True)
    rig.store.published[stream.id].cancel(None)
    assert stream.outcome is Outcome.CANCELLED


async def test_a_stream_takes_the_name_that_was_made_for_it() -> None:
    rig = Rig()
    opened = await rig.orchestrator.open(rig.generation(), stream_id="mine")
    assert isinstance(opened, Stream)
    assert (opened.id, opened.descriptor.id) == ("mine", "mine")


async def test_the_descriptor_holds_what_a_later_read_has_to_know() -> None:
    rig = Rig()
    stream = await rig.stream(
        tenant="acme",
        resumable=True,
        integrity=True,
        include_usage=True,
        metadata=True,
        fields=True,
        n=2,
    )
    found = stream.descriptor
    assert (found.tenant, found.resumable, found.integrity) == ("acme", True, True)
    assert (found.include_usage, found.metadata, found.fields) == (True, True, True)
    assert (found.max_bytes, found.max_records, found.created) == (4096, 16, 1_700_000_000)
    assert found.branches[0].choices == 2
    assert stream.log.checks() is not None
