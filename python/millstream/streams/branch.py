"""One of the requests that share a stream, usually the only one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from millstream.engines.base import NO_CONTEXT, EngineEnd
from millstream.streams.failures import FAILURES
from millstream.telemetry.logging import get_logger
from millstream.types import Failure, Outcome, Usage

if TYPE_CHECKING:
    from millstream._core import Log
    from millstream.admission import Lease
    from millstream.engines.base import Engine, RequestContext
    from millstream.types import SamplingParams

_log = get_logger(__name__)

WHOLE = frozenset({Outcome.COMPLETED, Outcome.LENGTH})
"""The outcomes of an answer that is all there."""


class Deadlines(msgspec.Struct, frozen=True):
    """How long a branch may take, in nanoseconds; ``None`` switches a timer off."""

    first_token_ns: int | None = None
    idle_ns: int | None = None
    total_ns: int | None = None


class BranchRun:
    """What one branch holds: a request of an engine, a lease, and in the end an outcome.

    ``request`` is the engine's number for it, ``index`` its place in the stream's log,
    ``max_tokens`` what each of its choices may have, ``charged`` what it has paid in tokens, None
    until then.
    """

    def __init__(
        self,
        *,
        index: int,
        request: int,
        model: str,
        engine: Engine,
        lease: Lease,
        log: Log,
        prompt_tokens: int,
        choices: int,
        deadlines: Deadlines,
        max_tokens: int = 0,
        context: RequestContext = NO_CONTEXT,
    ) -> None:
        self.index = index
        self.request = request
        self.model = model
        self.lease = lease
        self.prompt_tokens = prompt_tokens
        self.choices = choices
        self.deadlines = deadlines
        self.outcome: Outcome | None = None
        self.max_tokens = max_tokens
        self.charged: int | None = None
        self._context = context
        self._engine = engine
        self._log = log

    def submit(
        self, prompt: list[int], params: SamplingParams, on_ended: Callable[[EngineEnd], None]
    ) -> None:
        """Hand the request to the engine; raises `EngineUnavailable`."""
        self._engine.submit(
            self.request,
            prompt,
            params,
            self._log,
            on_ended,
            branch=self.index,
            context=self._context,
        )

    def abort(self) -> None:
        """Let the engine append nothing more. Idempotent."""
        self._engine.abort(self.request)

    def settle(self) -> None:
        """Pay what was used; a second call changes nothing."""
        if self.charged is None:
            usage = self.usage
            cost = usage.prompt_tokens + usage.completion_tokens
            # A lease that has expired was charged in full.
            self.charged = cost if self.lease.settle(cost) else self.lease.tokens

    @property
    def usage(self) -> Usage:
        """The engine's count where it gave one, else what the log has seen of this branch."""
        return self._counted() or Usage(self.prompt_tokens, self.token_count)

    def _counted(self) -> Usage | None:
        text = self._log.usage_of(self.index)
        if text is None:
            return None
        try:
            usage = Usage.from_json(text)
        except msgspec.DecodeError:
            usage = Usage(-1, -1)
        if min(usage.prompt_tokens, usage.completion_tokens) >= 0:
            return usage
        # An upstream's own words: what they cannot tell must not go unpaid.
        _log.warning("usage_unreadable", model=self.model, branch=self.index)
        return None

    @property
    def token_count(self) -> int:
        """Tokens generated so far."""
        return self._log.token_count_of(self.index)

    def outcome_after(self, end: EngineEnd) -> Outcome:
        """What it means for this branch that its engine left it so."""
        if end is EngineEnd.LOST:
            return Outcome.ENGINE_LOST
        log, index = self._log, self.index
        if log.error_of(index) is not None:
            return Outcome.UPSTREAM_ERROR
        reasons = {log.finish_reason(choice, index) for choice in range(self.choices)}
        return Outcome.LENGTH if "length" in reasons else Outcome.COMPLETED

    def failure(self, outcome: Outcome, said: Failure | None = None) -> Failure | None:
        """What the server has to say of this outcome; None if the engine has said it.

        ``said`` goes before what is usually said.
        """
        if self._log.error_of(self.index) is not None:
            return None
        return said or FAILURES.get(outcome)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of a stream whose branches ended so: the first failing one decides."""
    seen = tuple(outcomes)
    failing = next((outcome for outcome in seen if outcome not in WHOLE), None)
    if failing is not None:
        return failing
    return Outcome.LENGTH if Outcome.LENGTH in seen else Outcome.COMPLETED
