"""An engine that does what the test says, a real limiter, and streams over both."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream._core import Log
from millstream.admission import Lease, Limits, MemoryLimiter, TokenWindow
from millstream.engines.base import EndCallback, EngineEnd, EngineStats, ModelInfo, Tokenizer
from millstream.errors import EngineUnavailable
from millstream.streams.registry import StreamRegistry
from millstream.streams.stream import Deadlines, Stream
from millstream.types import Kind, SamplingParams

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
    ) -> None:
        if not self.ready:
            raise EngineUnavailable("away")
        self.logs[request], self.callbacks[request] = log, on_ended
        self.branches[request] = branch

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


def _limiter() -> MemoryLimiter:
    limits = Limits(tokens=TokenWindow(10 * RESERVED, 1000), concurrency=10)
    return MemoryLimiter(limits, clock=lambda: 0)


@dataclass
class Bench:
    """One engine and the streams that were opened on it."""

    engine: ManualEngine = field(default_factory=ManualEngine)
    limiter: MemoryLimiter = field(default_factory=_limiter)
    registry: StreamRegistry = field(default_factory=StreamRegistry)
    closed: list[Stream] = field(default_factory=list)

    def stream(
        self, *, deadlines: Deadlines | None = None, admitted_ns: int = 0, request: int = 1
    ) -> Stream:
        """A stream that is not started yet."""
        stream = Stream(
            id=f"stream-{request}",
            request=request,
            model="m",
            route="chat.completion",
            engine=self.engine,
            lease=self._lease(),
            log=Log(),
            prompt_tokens=7,
            deadlines=deadlines or Deadlines(),
            admitted_ns=admitted_ns,
            wall_clock=lambda: 1_700_000_000 * SECOND,
            on_closed=self._closed,
        )
        self.registry.add(stream)
        return stream

    def started(self, **arguments: object) -> Stream:
        """A stream that the engine works on."""
        stream = self.stream(**arguments)  # type: ignore[arg-type]
        stream.start([1, 2, 3], SamplingParams(max_tokens=5))
        return stream

    @property
    def charged(self) -> int:
        """Tokens that are spent or reserved."""
        tokens = self.limiter.peek("m").tokens
        assert tokens is not None
        return tokens.limit - tokens.remaining

    @property
    def leases(self) -> int:
        """Leases that are still open."""
        slots = self.limiter.peek("m").concurrency
        assert slots is not None
        return slots.limit - slots.remaining

    def _lease(self) -> Lease:
        lease = self.limiter.admit("m", RESERVED)
        assert isinstance(lease, Lease)
        return lease

    def _closed(self, stream: Stream) -> None:
        self.registry.discard(stream)
        self.closed.append(stream)
