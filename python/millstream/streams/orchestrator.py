"""Where a validated request becomes a stream."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from millstream._core import Log
from millstream.admission import Lease, Refusal, estimated_cost, undo_all
from millstream.engines.base import RequestContext
from millstream.errors import EngineUnavailable
from millstream.store.descriptor import BranchDescriptor, Descriptor, DialectName
from millstream.store.recording import Recording
from millstream.streams.branch import BranchRun, Deadlines
from millstream.streams.demands import demands_of, granted, log_bytes
from millstream.streams.stream import Stream
from millstream.types import Outcome, SamplingParams

if TYPE_CHECKING:
    from millstream.admission import Admission
    from millstream.config import StreamPolicy
    from millstream.engines.base import Engine
    from millstream.store import StreamStore
    from millstream.streams.drain import Drain
    from millstream.streams.observer import Observer
    from millstream.streams.registry import StreamRegistry


LARGEST_LOG = 1 << 30
"""Bytes and records; a log takes no larger bounds."""


class BranchRequest(msgspec.Struct, frozen=True):
    """What one branch of a stream is to generate, checked and in tokens."""

    model: str
    engine: Engine
    prompt: list[int]
    params: SamplingParams
    deadlines: Deadlines

    @property
    def cost(self) -> int:
        """The most tokens that this can come to."""
        return estimated_cost(len(self.prompt), self.params.max_tokens, self.params.n)


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asked for."""

    route: str
    dialect: DialectName
    id_prefix: str
    """Goes before the stream's id in the ``id`` member of chunks."""
    branches: tuple[BranchRequest, ...]
    streamed: bool
    """Whether a reader follows; if not, the answer is the whole text and all of it is kept."""
    policy: StreamPolicy
    tenant: str = "default"
    urgency: int = 3
    """RFC 9218: whoever waits for a limit with a lower number goes first."""
    flow_id: str = ""
    """Name of the whole piece of work that this is part of, across services."""
    least_tokens: int = 0
    """Content with as few of ``max_tokens``, if the limits have no more left; 0 is all or none."""
    include_usage: bool = False
    metadata: bool = False
    fields: bool = False
    resumable: bool = False
    """Frames carry event ids; implies ``retained``."""
    integrity: bool = False
    retained: bool = False
    """Kept after its end, and for a while detached instead of cancelled when nobody reads."""
    background: bool = False
    """Retained, and never ended for want of readers."""
    response: str | None = None
    """Template of the Responses dialect, with the id filled in."""

    @property
    def kept(self) -> bool:
        """Whether it outlives its connection."""
        return self.resumable or self.retained or self.background

    @property
    def grace_ns(self) -> int | None:
        """How long it goes on without a reader; None is to its end."""
        if self.background:
            return None
        return int(self.policy.detach_grace_seconds * 1e9) if self.kept else 0


def new_stream_id() -> str:
    """A name that nobody can guess: 144 random bits, safe in a URL."""
    return secrets.token_urlsafe(18)


class Orchestrator:
    """Admits generations and owns the streams that they become.

    ``permitted`` is asked again once one has been admitted, which may be a while after its route
    asked: it raises what the client is to be told.
    """

    def __init__(
        self,
        *,
        registry: StreamRegistry,
        admission: Admission,
        drain: Drain,
        observer: Observer,
        store: StreamStore,
        clock: Callable[[], int],
        wall_clock: Callable[[], int],
        permitted: Callable[[Generation], None] = lambda _: None,
    ) -> None:
        self._registry = registry
        self.admission = admission
        self._drain = drain
        self._observer = observer
        self._store = store
        self._clock = clock
        self._wall_clock = wall_clock
        self._permitted = permitted
        self._requests = itertools.count(1)

    async def open(
        self, generation: Generation, *, stream_id: str | None = None
    ) -> Stream | Refusal:
        """Admit and start a stream, or say which limit refuses it; of its branches all or none.

        Waits where a limit has a queue; cancelled meanwhile it leaves nothing behind. Raises
        `EngineUnavailable` while an engine is away or the server leaves, and `CostExceedsLimit`
        where waiting would not help, and what ``permitted`` does; nothing is charged then.
        """
        self._check_staying()
        bound = log_bytes(generation, self.admission, _own_log_bytes(generation))
        demands = demands_of(generation, self.admission, bound)
        admitted = await self.admission.admit(demands, urgency=generation.urgency)
        if isinstance(admitted, Refusal):
            return admitted
        try:
            # It may have waited: the server leaves, the engine may have gone, or the tenant.
            self._check_staying()
            self._permitted(generation)
            generation = granted(generation, admitted)
            stream = self._begin(generation, admitted, stream_id or new_stream_id(), bound)
        except BaseException:
            undo_all(admitted)
            raise
        self._publish(stream)
        return stream

    def longest_wait_seconds(self, generation: Generation) -> float:
        """How long `open` may wait for the limits at most."""
        return self.admission.longest_wait_seconds(demands_of(generation, self.admission, 0))

    def sweep(self, now_ns: int) -> None:
        """Let nobody wait for a server that leaves."""
        if self._drain.begun:
            self.admission.turn_away(_leaving())

    def _check_staying(self) -> None:
        if self._drain.begun:
            raise _leaving()

    def _begin(
        self, generation: Generation, leases: Sequence[Lease], stream_id: str, max_bytes: int
    ) -> Stream:
        stream = self._stream(generation, leases, stream_id, max_bytes)
        self._registry.add(stream)
        self._observer.admitted(stream)
        stream.start([(branch.prompt, branch.params) for branch in generation.branches])
        return stream

    def _publish(self, stream: Stream) -> None:
        if not stream.retained:
            return
        try:
            self._store.publish(stream.recording, stream)
        except BaseException:
            # Nobody will read it, and it holds a lease and an engine.
            stream.end(Outcome.CANCELLED)
            raise

    def _stream(
        self, generation: Generation, leases: Sequence[Lease], stream_id: str, max_bytes: int
    ) -> Stream:
        wall_ns = self._wall_clock()
        created = wall_ns // 1_000_000_000
        descriptor = _descriptor(generation, stream_id, created=created, max_bytes=max_bytes)
        recording = Recording(descriptor, _log(descriptor))
        return Stream(
            recording=recording,
            branches=self._branches(generation, leases, recording.log),
            route=generation.route,
            retained=generation.kept,
            grace_ns=generation.grace_ns,
            admitted_ns=self._clock(),
            admitted_wall_ns=wall_ns,
            clock=self._clock,
            wall_clock=self._wall_clock,
            observer=self._observer,
            on_ended=self._ended,
            on_closed=self._closed,
        )

    def _branches(
        self, generation: Generation, leases: Sequence[Lease], log: Log
    ) -> list[BranchRun]:
        return [
            BranchRun(
                index=index,
                request=next(self._requests),
                model=asked.model,
                engine=asked.engine,
                lease=lease,
                log=log,
                prompt_tokens=len(asked.prompt),
                choices=asked.params.n,
                deadlines=asked.deadlines,
                max_tokens=asked.params.max_tokens,
                context=RequestContext(
                    flow_id=generation.flow_id,
                    tenant=generation.tenant,
                    quota_remaining=lease.quota_remaining,
                ),
            )
            for index, (asked, lease) in enumerate(zip(generation.branches, leases, strict=True))
        ]

    def _ended(self, stream: Stream) -> None:
        if stream.retained:
            self._store.keep(stream.recording)

    def _closed(self, stream: Stream) -> None:
        self._registry.discard(stream)
        self._observer.closed(stream)


def _leaving() -> EngineUnavailable:
    return EngineUnavailable("The server is shutting down.")


def _own_log_bytes(generation: Generation) -> int:
    # A whole answer is bounded by ``max_tokens``.
    return generation.policy.max_bytes if generation.streamed else LARGEST_LOG


def _descriptor(
    generation: Generation, stream_id: str, *, created: int, max_bytes: int
) -> Descriptor:
    policy = generation.policy
    chunk_id = f"{generation.id_prefix}{stream_id}"
    several = len(generation.branches) > 1
    return Descriptor(
        id=stream_id,
        tenant=generation.tenant,
        route=generation.route,
        dialect=generation.dialect,
        created=created,
        branches=tuple(
            BranchDescriptor(
                model=branch.model,
                chunk_id=f"{chunk_id}-{index}" if several else chunk_id,
                choices=branch.params.n,
            )
            for index, branch in enumerate(generation.branches)
        ),
        include_usage=generation.include_usage,
        metadata=generation.metadata,
        fields=generation.fields,
        resumable=generation.resumable,
        integrity=generation.integrity,
        max_bytes=max_bytes,
        max_records=policy.max_records if generation.streamed else LARGEST_LOG,
        retention_seconds=policy.retention_seconds,
        keep_alive_seconds=policy.keep_alive_seconds,
        blocked_send_seconds=policy.blocked_send_seconds,
        response=generation.response,
    )


def _log(descriptor: Descriptor) -> Log:
    return Log(
        max_bytes=descriptor.max_bytes,
        max_records=descriptor.max_records,
        integrity=descriptor.id.encode() if descriptor.integrity else None,
        branches=len(descriptor.branches),
    )
