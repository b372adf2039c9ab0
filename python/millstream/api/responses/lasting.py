"""How a response outlives its connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request

from millstream.api.opt_ins import wanted
from millstream.api.responses.schemas import ResponsesRequest, ResponseStreamOptions
from millstream.errors import UnsupportedParameter

if TYPE_CHECKING:
    from millstream.config import StreamPolicy

_RESUMABLE = "stream_options.resumable"


@dataclass(frozen=True, slots=True)
class Lasting:
    """What becomes of a response that nobody reads.

    ``stored`` ones can be retrieved after their end. ``promised_by`` is the parameter by which a
    client was promised to find its response again, on whatever worker.
    """

    policy: StreamPolicy
    stored: bool
    resumable: bool
    promised_by: str | None


def lasting(
    request: Request, body: ResponsesRequest, policy: StreamPolicy, *, keyed: bool
) -> Lasting:
    """What this request asks for; raises `RequestError` for contradictions."""
    resumable = _resumable(request, body, policy)
    promised_by = "background" if body.background else _RESUMABLE if resumable else None
    attended = promised_by is None and not keyed
    return Lasting(
        policy=_attended(policy) if attended else policy,
        stored=body.store is not False or keyed,
        resumable=resumable,
        promised_by=promised_by,
    )


def _resumable(request: Request, body: ResponsesRequest, policy: StreamPolicy) -> bool:
    if not body.stream:
        return False
    options = body.stream_options or ResponseStreamOptions()
    asked = wanted(request, "resumable", options.resumable)
    if body.store is not False:
        return policy.resumable_default if asked is None else asked
    if asked:
        raise UnsupportedParameter(
            f"{_RESUMABLE} needs store: true, since a stream is resumed from the store.",
            param=_RESUMABLE,
        )
    return False


def _attended(policy: StreamPolicy) -> StreamPolicy:
    """A policy for a response whose client stays: it is cancelled when that client leaves."""
    return policy.model_copy(update={"detach_grace_seconds": 0.0})
