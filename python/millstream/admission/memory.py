"""Limits kept in this process: right for one worker only (`sole_worker`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from millstream import _core
from millstream.admission.leases import Lease, Refusal
from millstream.admission.policies import Limits
from millstream.errors import CostExceedsLimit

GLOBAL = "global"

CONCURRENCY_RETRY_NS = 1_000_000_000
"""What a client is told to wait for a stream of somebody else to end."""

LEASE_TTL_NS = 900_000_000_000
"""After this an owner that has not ended or renewed its lease is taken for gone."""


class MemoryLease(Lease):
    """A lease of the counters in this process."""

    __slots__ = ("_clock", "_lease", "_limiter", "_scopes", "_snapshot")

    def __init__(
        self,
        limiter: _core.Limiter,
        lease: _core.Lease,
        clock: Callable[[], int],
        scopes: _core.Scopes,
    ) -> None:
        self._limiter = limiter
        self._lease = lease
        self._clock = clock
        self._scopes = scopes
        self._snapshot = limiter.peek(scopes, clock())

    @property
    def tokens(self) -> int:
        """Tokens reserved in all."""
        return self._lease.tokens

    @property
    def snapshot(self) -> _core.Snapshot:
        """What was left right after the reservation."""
        return self._snapshot

    def settle(self, actual: int) -> bool:
        """Charge the tokens that were really used, and the request."""
        return self._limiter.settle(self._lease, actual, self._clock())

    def cancel(self, emitted: int) -> bool:
        """Charge the prompt and the tokens emitted until the stream was given up."""
        return self._limiter.cancel(self._lease, emitted, self._clock())

    def undo(self) -> bool:
        """Charge nothing, not even the request: for a stream that never came to be."""
        return self._limiter.undo(self._lease, self._clock())

    def renew(self) -> bool:
        """Keep a long stream's lease from expiring; False if it has ended."""
        return self._limiter.renew(self._lease, self._clock())

    def remaining_tokens(self) -> int | None:
        """Tokens left in the tightest scope at this moment; None is no limit."""
        meter = self._limiter.peek(self._scopes, self._clock()).tokens
        return None if meter is None else meter.remaining


class MemoryLimiter:
    """Limits of the whole server and of each model, checked together, all or nothing.

    ``clock`` gives nanoseconds that never step back. ConfigError for limits out of range.
    """

    def __init__(
        self,
        server: Limits | None = None,
        models: Mapping[str, Limits] | None = None,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        lease_ttl_ns: int = LEASE_TTL_NS,
    ) -> None:
        self._limiter = _core.Limiter(lease_ttl_ns=lease_ttl_ns)
        self._clock = clock
        self.replace_limits(server, models)

    def replace_limits(
        self, server: Limits | None = None, models: Mapping[str, Limits] | None = None
    ) -> None:
        """Goes on under other limits: what is in use stays in use. ConfigError as above."""
        server = server or Limits()
        models = models or {}
        whole = (GLOBAL, server.quota())
        scopes = {
            model: self._limiter.scopes([whole, (_scope(model), limits.quota())])
            for model, limits in models.items()
        }
        self._server_scopes = self._limiter.scopes([whole])
        self._model_scopes = scopes
        self._limits = {GLOBAL: server} | {_scope(name): found for name, found in models.items()}

    def admit(self, model: str, tokens: int, *, prompt_tokens: int = 0) -> Lease | Refusal:
        """Reserves one request, ``tokens`` and one stream; ``prompt_tokens`` of them are charged
        even if the stream is cancelled before anything was generated.

        A model without limits falls under the server's alone. CostExceedsLimit if no waiting could
        help, ValueError for tokens outside 1..2**40.
        """
        if tokens < 1:
            raise ValueError(f"a request costs at least one token, not {tokens}")
        scopes = self._model_scopes.get(model, self._server_scopes)
        now_ns = self._clock()
        decision = self._limiter.reserve(scopes, now_ns, tokens, 1, prompt_tokens)
        if isinstance(decision, _core.Lease):
            return MemoryLease(self._limiter, decision, self._clock, scopes)
        if decision.permanent:
            raise self._never(decision, tokens)
        wait_ns = decision.wait_ns
        if decision.dimension == "concurrency":
            wait_ns = max(wait_ns, CONCURRENCY_RETRY_NS)
        snapshot = self._limiter.peek(scopes, now_ns)
        return Refusal(decision.scope, decision.dimension, wait_ns, snapshot)

    def peek(self, model: str) -> _core.Snapshot:
        """What is left for a model, in its tightest scope of each dimension."""
        scopes = self._model_scopes.get(model, self._server_scopes)
        return self._limiter.peek(scopes, self._clock())

    def _never(self, refusal: _core.Refusal, tokens: int) -> CostExceedsLimit:
        limits = self._limits[refusal.scope]
        where = _described(refusal.scope)
        if refusal.dimension == "tokens" and limits.tokens is not None:
            limit = f"{limits.tokens.limit} tokens per {limits.tokens.window_ms} ms"
            message = f"the request reserves {tokens} tokens, but the limit of {where} is {limit}"
            return CostExceedsLimit(message, param="max_tokens")
        return CostExceedsLimit(f"{where} admits nothing: its limit of {refusal.dimension} is 0")


def _scope(model: str) -> str:
    return f"model:{model}"


def _described(scope: str) -> str:
    return "the server" if scope == GLOBAL else f"the model {scope.removeprefix('model:')!r}"
