"""An engine that does what the test says, a real limiter, and streams over both."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream._core import Log
from millstream.admission import (
    Admission,
    Cost,
    Lease,
    LimitBook,
    Limits,
    MemoryLimiter,
    TokenWindow,
)
from millstream.engines.base import (
    NO_CONTEXT,
    EndCallback,
    EngineEnd,
    EngineStats,
    ModelInfo,
    RequestContext,
    Tokenizer,
    shortened,
)
from millstream.errors import EngineUnavailable
from millstream.store import (
    BranchDescriptor,
    Claim,
    Descriptor,
    IdempotencyKey,
    Producer,
    Recording,
)
from millstream.streams.branch import BranchRun, Deadlines
from millstream.streams.lifecycle import State
from millstream.streams.registry import StreamRegistry
from millstream.streams.stream import Stream
from millstream.types import Kind, Outcome, SamplingParams

SECOND = 1_000_000_000
RESERVED = 100


@dataclass
class ManualEngine:
    """Generates when told to; counts aborts."""

    name: str = "manual"
    ready: bool = True
    model_info: ModelInfo | None = None
    logs: dict[int, Log] = field(default_factory=dict)
    branches: dict[int, int] = field(default_factory=dict)
    contexts: dict[int, RequestContext] = field(default_factory=dict)
    callbacks: dict[int, EndCallback] = field(default_factory=dict)
    aborted: list[int] = field(default_factory=list)

    @property
    def tokenizer(self) -> Tokenizer:
        raise NotImplementedError

    async def start(self) -> None:
        self.ready = True

    async def close(self) -> None:
        self.ready = False

    def submit(
        self,
        request: int,
        prompt: list[int],
        params: SamplingParams,
        log: Log,
        on_ended: EndCallback,
        *,
        branch: int = 0,
        context: RequestContext = NO_CONTEXT,
    ) -> None:
        if not self.ready:
            raise EngineUnavailable("away")
        self.logs[request], self.callbacks[request] = log, on_ended
        self.branches[request], self.contexts[request] = branch, context

    def adapted(
        self, params: SamplingParams, prompt_tokens: int, quota_remaining: int
    ) -> SamplingParams:
        return shortened(params, prompt_tokens, quota_remaining)

    def abort(self, request: int) -> None:
        self.aborted.append(request)
        self.callbacks.pop(request, None)

    async def stats(self) -> EngineStats | None:
        return None

    def token(self, request: int, text: str, *, count: int = 1, choice: int = 0) -> None:
        self._append(request, Kind.TOKEN, text, choice=choice, token_count=count)

    def finish(self, request: int, reason: str = "stop", *, tokens: int = 0) -> None:
        self._append(request, Kind.FINISH, reason)
        usage = f'{{"prompt_tokens":7,"completion_tokens":{tokens},"total_tokens":{7 + tokens}}}'
        self._append(request, Kind.USAGE, usage)
        self.callbacks.pop(request)(EngineEnd.ENDED)

    def fail(self, request: int, error: str) -> None:
        self._append(request, Kind.ERROR, error)
        self.callbacks.pop(request)(EngineEnd.ENDED)

    def _append(
        self, request: int, kind: Kind, text: str, *, choice: int = 0, token_count: int = 0
    ) -> None:
        branch = self.branches[request]
        self.logs[request].append(
            kind, text, choice=choice, token_count=token_count, branch=branch, time_ns=1
        )

    def lose(self, request: int) -> None:
        self.callbacks.pop(request)(EngineEnd.LOST)


def _limits() -> Limits:
    return Limits(tokens=TokenWindow(10 * RESERVED, 1000), concurrency=10)


def _limiter() -> MemoryLimiter:
    return MemoryLimiter(clock=lambda: 0)


@dataclass
class Heard:
    """An observer that keeps what it hears."""

    events: list[tuple[str, Outcome | None]] = field(default_factory=list)
    moves: list[tuple[State, State]] = field(default_factory=list)

    def admitted(self, stream: Stream) -> None:
        self.events.append(("admitted", stream.outcome))

    def moved(self, stream: Stream, origin: State, to: State) -> None:
        self.moves.append((origin, to))

    def closed(self, stream: Stream) -> None:
        self.events.append(("closed", stream.outcome))


@dataclass
class KeepingStore:
    """A store of ended streams that writes down what it is asked."""

    shared: bool = False
    published: dict[str, Producer] = field(default_factory=dict)
    kept: dict[str, Recording] = field(default_factory=dict)
    elsewhere: dict[str, Recording] = field(default_factory=dict)
    cancelled: list[tuple[str, int | None]] = field(default_factory=list)

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def publish(self, recording: Recording, producer: Producer) -> None:
        self.published[recording.id] = producer

    def keep(self, recording: Recording) -> None:
        assert recording.log.closed
        self.kept[recording.id] = recording

    async def find(self, stream_id: str) -> Recording | None:
        return self.kept.get(stream_id) or self.elsewhere.get(stream_id)

    async def cancel(self, stream_id: str, branch: int | None) -> bool:
        self.cancelled.append((stream_id, branch))
        return stream_id in self.elsewhere

    async def discard(self, stream_id: str) -> None:
        self.kept.pop(stream_id, None)

    async def claim(self, key: IdempotencyKey, claim: Claim, *, ttl_seconds: float) -> Claim | None:
        raise NotImplementedError

    async def claimed(self, key: IdempotencyKey) -> Claim | None:
        raise NotImplementedError

    async def release(self, key: IdempotencyKey, stream_id: str) -> None:
        raise NotImplementedError

    def sweep(self, now_ns: int) -> None:
        pass


@dataclass
class Bench:
    """One engine, the streams that were opened on it, and a clock that the test turns."""

    engine: ManualEngine = field(default_factory=ManualEngine)
    limiter: MemoryLimiter = field(default_factory=_limiter)
    limits: Limits = field(default_factory=_limits)
    registry: StreamRegistry = field(default_factory=StreamRegistry)
    heard: Heard = field(default_factory=Heard)
    store: KeepingStore = field(default_factory=KeepingStore)
    closed: list[Stream] = field(default_factory=list)
    now_ns: int = 0

    def __post_init__(self) -> None:
        self.book = LimitBook(self.limits)
        self.admission = Admission(self.limiter, self.book, clock=lambda: self.now_ns)

    def stream(
        self,
        *,
        deadlines: Deadlines | None = None,
        admitted_ns: int = 0,
        request: int = 1,
        branches: int = 1,
        grace_ns: int | None = 0,
        resumable: bool = False,
        tenant: str = "default",
        id_prefix: str = "chatcmpl-",
        choices: int = 1,
    ) -> Stream:
        """A stream that is not started yet; its branches are requests from ``request`` on."""
        stream_id = f"stream-{request}"
        descriptor = Descriptor(
            id=stream_id,
            tenant=tenant,
            route="chat.completion",
            dialect="chat",
            created=1_700_000_000,
            branches=tuple(
                BranchDescriptor(model="m", chunk_id=f"{id_prefix}{stream_id}", choices=choices)
                for _ in range(branches)
            ),
            resumable=resumable,
        )
        log = Log(branches=branches)
        stream = Stream(
            recording=Recording(descriptor, log),
            branches=[
                BranchRun(
                    index=index,
                    request=request + index,
                    model="m",
                    engine=self.engine,
                    lease=self._lease(),
                    log=log,
                    prompt_tokens=7,
                    choices=choices,
                    deadlines=deadlines or Deadlines(),
                )
                for index in range(branches)
            ],
            route="chat.completion",
            retained=resumable or grace_ns != 0,
            grace_ns=grace_ns,
            admitted_ns=admitted_ns,
            admitted_wall_ns=1_700_000_000 * SECOND,
            clock=lambda: self.now_ns,
            wall_clock=lambda: 1_700_000_000 * SECOND,
            observer=self.heard,
            on_ended=self._ended,
            on_closed=self._closed,
        )
        self.registry.add(stream)
        return stream

    def started(self, **arguments: object) -> Stream:
        """A stream that the engine works on."""
        stream = self.stream(**arguments)  # type: ignore[arg-type]
        stream.start([([1, 2, 3], SamplingParams(max_tokens=5))] * len(stream.branches))
        return stream

    @property
    def charged(self) -> int:
        """Tokens that are spent or reserved."""
        tokens = self.limiter.try_peek(self.book.scopes("default", "m")).tokens
        assert tokens is not None
        return tokens.limit - tokens.remaining

    @property
    def leases(self) -> int:
        """Leases that are still open."""
        slots = self.limiter.try_peek(self.book.scopes("default", "m")).concurrency
        assert slots is not None
        return slots.limit - slots.remaining

    def _lease(self) -> Lease:
        scopes = self.book.scopes("default", "m")
        lease = self.limiter.try_reserve(scopes, Cost(RESERVED))
        assert isinstance(lease, Lease)
        return lease

    def _ended(self, stream: Stream) -> None:
        if stream.retained:
            self.store.keep(stream.recording)

    def _closed(self, stream: Stream) -> None:
        self.registry.discard(stream)
        self.closed.append(stream)
