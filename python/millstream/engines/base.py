"""What every engine looks like from the side of a stream."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from millstream._core import Log, RingConsumer
    from millstream.types import SamplingParams


class EngineEnd(StrEnum):
    """How an engine leaves a stream that was not aborted."""

    ENDED = "ended"
    """The engine's last record (USAGE or ERROR) is in the log."""
    LOST = "lost"
    """The engine has gone; no further record will come."""


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The model that an engine serves, once it is known."""

    model: str
    context_length: int
    """Most tokens of prompt and completion together."""
    cache_tokens: int
    """Tokens that the whole key-value cache holds; no single sequence can be longer."""
    max_batch: int


class EngineStats(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's scheduler at one moment."""

    pid: int
    running: int
    waiting: int
    pages_used: int
    pages_total: int
    steps: int
    tokens_generated: int
    requests_aborted: int
    last_step_ns: int
    """Duration of the latest step."""
    idle_ns: int
    """Time since the latest step ended or an idle engine got work.

    With ``running`` above 0 a large value means a hang.
    """


class Tokenizer(Protocol):
    """What a worker needs of a model's tokenizer."""

    @property
    def context_length(self) -> int:
        """Most tokens of prompt and completion together."""
        ...

    @property
    def vocabulary_size(self) -> int:
        """Ids are below this."""
        ...

    @property
    def longest_token(self) -> int:
        """Characters: a text of n tokens has at most n times as many."""
        ...

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text; lets other threads run meanwhile."""
        ...

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        """Token ids of a conversation under the model's chat template."""
        ...


class Hub(Protocol):
    """The worker's end of one ring: delivers its records into logs."""

    def attach(self, request: int, log: Log, branch: int = 0) -> None:
        """Append the records of ``request`` to ``log``, as of this branch, from now on."""
        ...

    def detach(self, request: int) -> None:
        """Drop the records of ``request`` from now on."""
        ...

    def drain(self) -> None:
        """Deliver at once what is in the ring."""
        ...

    def close(self) -> None:
        """Stop watching the ring."""
        ...


HubFactory = Callable[["RingConsumer", Callable[[int], None], Callable[[OSError], None]], Hub]
"""Makes a hub on the running loop. The first callable is told of each request whose last record
(USAGE or ERROR) has been delivered, the second that the ring can be read no more."""


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine may know of the request that it works for."""

    flow_id: str = ""
    """Name of the whole piece of work that this is part of, across services."""
    tenant: str = "default"
    quota_remaining: int | None = None
    """Tokens left in the tightest limit after this reservation; None is no limit."""


NO_CONTEXT = RequestContext()

EndCallback = Callable[[EngineEnd], None]


class Engine(Protocol):
    """Turns a request into records of a log."""

    name: str

    @property
    def ready(self) -> bool:
        """Whether `submit` can be called."""
        ...

    @property
    def model_info(self) -> ModelInfo | None:
        """The model, once the engine has been reached."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, loaded on first use."""
        ...

    async def start(self) -> None:
        """Reach the engine in the background, and again whenever it is lost, until `close`."""
        ...

    async def close(self) -> None:
        """Let go of the engine; open streams end as lost."""
        ...

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
        """Generate into a branch of ``log``; ``on_ended`` is called once, after this has returned.

        Raises `EngineUnavailable`.
        """
        ...

    def adapted(
        self, params: SamplingParams, prompt_tokens: int, quota_remaining: int
    ) -> SamplingParams:
        """These parameters for a client that takes less instead of nothing.

        The prompt and all choices come to at most ``quota_remaining`` tokens; unchanged if no
        token of each would fit.
        """
        ...

    def abort(self, request: int) -> None:
        """Stop; afterwards nothing is appended and ``on_ended`` is not called. Idempotent."""
        ...

    async def stats(self) -> EngineStats | None:
        """The scheduler at this moment, or None if the engine does not answer."""
        ...


def shortened(params: SamplingParams, prompt_tokens: int, quota_remaining: int) -> SamplingParams:
    """`Engine.adapted` for engines that give up nothing but length."""
    affordable = (quota_remaining - prompt_tokens) // params.n
    if not 1 <= affordable < params.max_tokens:
        return params
    return msgspec.structs.replace(params, max_tokens=affordable)
