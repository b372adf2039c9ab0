"""A stream for a request: a new one, or the one that its idempotency key stands for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from opentelemetry import trace

from millstream.admission import Refusal
from millstream.api.adapting import taken_headers
from millstream.api.connected import ClientLeft, WhileConnected
from millstream.api.errors import RouteRefused
from millstream.api.expiry import before_expiry
from millstream.api.idempotency import Keyed, other_body
from millstream.api.priority import urgency_of
from millstream.api.ratelimit import limit_headers
from millstream.middleware.state import state_of
from millstream.store.base import Claim
from millstream.streams.orchestrator import new_stream_id
from millstream.types import Outcome

if TYPE_CHECKING:
    from starlette.requests import Request

    from millstream.api.services import Services
    from millstream.store.recording import Recording
    from millstream.streams.orchestrator import Generation
    from millstream.streams.stream import Stream

# Between another worker's claim and its stream lie its admission and one write to the store.
PATIENCE_SECONDS = 2.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Opened:
    """A stream to answer with. Whoever reads it attaches; until then `abandon` lets go of it."""

    stream: Stream | Recording
    headers: dict[str, str]
    new: Stream | None
    """The stream, if this request began it."""

    def abandon(self) -> None:
        """Nobody will read: what has been acquired is given back."""
        if self.new is not None:
            self.new.end(Outcome.CANCELLED)


async def replay(services: Services, keyed: Keyed | None) -> Opened | None:
    """What the key stands for already, if it does; no engine is needed for that.

    None also while the stream of another request with the key is still to come: `open_stream`
    waits for it. Raises `RouteRefused` (422) for a key of another request, and `StoreUnavailable`.
    """
    claim = None if keyed is None else await services.store.claimed(keyed.key)
    if keyed is None or claim is None:
        return None
    found = await _claimant(services, keyed, claim)
    return None if found is None else _replayed(found)


async def open_stream(
    request: Request,
    services: Services,
    generation: Generation,
    keyed: Keyed | None,
    *,
    stream_id: str | None = None,
) -> Opened | Refusal:
    """Begin the generation, or attach to what the key stands for.

    Where that has to wait, it waits as long as the client does, and no longer than its credential
    holds where that cuts connections. The key is taken in one step before
    anything is admitted, and given back when admission refuses, so of requests at the same instant
    exactly one generates. Raises `RouteRefused` (422 for a key of another request, 499 if the
    client has left), `CredentialExpired`, and what `Orchestrator.open` raises.
    """
    state = state_of(request.scope)
    asked = msgspec.structs.replace(
        generation,
        urgency=urgency_of(request, services.settings),
        flow_id=state.get("flow_id") or state.get("request_id") or "",
    )
    try:
        async with WhileConnected(request.receive):
            opening = _open(services, asked, keyed, stream_id)
            opened = await before_expiry(request, services, opening)
    except ClientLeft:
        state["outcome"] = Outcome.CLIENT_GONE
        raise RouteRefused(499, "client_gone", "The client has left.") from None
    if isinstance(opened, Refusal):
        services.metrics.refusal(opened.scope_kind, opened.dimension)
    elif opened.new is not None:
        _tell_admitted(request, opened.new)
    return opened


def _tell_admitted(request: Request, stream: Stream) -> None:
    """Let those around the route know what the request has got of the limits, and its stream."""
    state = state_of(request.scope)
    state["lease"] = stream.lease
    state["quota_remaining"] = stream.quota_remaining
    _mark_span(request, stream)
    if "life" in state:
        state["life"].admitted(stream)


async def _open(
    services: Services, generation: Generation, keyed: Keyed | None, stream_id: str | None
) -> Opened | Refusal:
    if keyed is None:
        return await _begin(services, generation, stream_id)
    stream_id = stream_id or new_stream_id()
    earlier = await _claimed(services, generation, keyed, stream_id)
    if earlier is not None:
        return _replayed(earlier)
    try:
        opened = await _begin(services, generation, stream_id)
    except BaseException:
        await services.store.release(keyed.key, stream_id)
        raise
    if isinstance(opened, Refusal):
        await services.store.release(keyed.key, stream_id)
    return opened


def retained_headers(stream_id: str) -> dict[str, str]:
    """Where a stream that is retained can be read again."""
    return {"x-stream-id": stream_id, "link": f'<{stream_path(stream_id)}>; rel="self"'}


def stream_path(stream_id: str) -> str:
    """The path of a stream."""
    return f"/v1/streams/{stream_id}"


async def _begin(
    services: Services, generation: Generation, stream_id: str | None
) -> Opened | Refusal:
    opened = await services.orchestrator.open(generation, stream_id=stream_id)
    if isinstance(opened, Refusal):
        return opened
    retained = retained_headers(opened.id) if generation.retained else {}
    taken = taken_headers(generation, opened) if generation.least_tokens else {}
    return Opened(opened, {**limit_headers(opened), **taken, **retained}, opened)


def _mark_span(request: Request, stream: Stream) -> None:
    span = trace.get_current_span()
    if span.is_recording():
        span.set_attribute("millstream.tenant", stream.descriptor.tenant)
        span.set_attribute("millstream.flow_id", state_of(request.scope).get("flow_id", ""))
        if stream.quota_remaining is not None:
            span.set_attribute("millstream.quota_remaining", stream.quota_remaining)


def _replayed(stream: Stream | Recording) -> Opened:
    return Opened(stream, {**retained_headers(stream.id), "idempotent-replayed": "true"}, None)


async def _claimed(
    services: Services, generation: Generation, keyed: Keyed, stream_id: str
) -> Stream | Recording | None:
    """The stream that has the key, or None: the key is ours under ``stream_id``."""
    claim = Claim(stream_id, keyed.fingerprint)
    ttl_seconds = _longest_life_seconds(generation)
    patience_seconds = PATIENCE_SECONDS + services.orchestrator.longest_wait_seconds(generation)
    loop = asyncio.get_running_loop()
    awaited, deadline = "", 0.0
    while True:
        earlier = await services.store.claim(keyed.key, claim, ttl_seconds=ttl_seconds)
        if earlier is None:
            return None
        found = await _claimant(services, keyed, earlier)
        if found is not None:
            return found
        if earlier.stream_id != awaited:
            # Each claim has its own time: another one who waits may have taken the key over.
            awaited, deadline = earlier.stream_id, loop.time() + patience_seconds
        if loop.time() >= deadline:
            # Its worker died in between, or the stream went before the key: nobody has it.
            await services.store.release(keyed.key, earlier.stream_id)
        else:
            await asyncio.sleep(_POLL_SECONDS)


async def _claimant(services: Services, keyed: Keyed, claim: Claim) -> Stream | Recording | None:
    """The stream that has the key by this claim, once it is there."""
    if claim.fingerprint != keyed.fingerprint:
        raise other_body()
    return await services.directory.find(claim.stream_id, keyed.key.tenant)


def _longest_life_seconds(generation: Generation) -> float:
    totals = [branch.deadlines.total_ns or 0 for branch in generation.branches]
    return max(totals) / 1e9 + generation.policy.retention_seconds
