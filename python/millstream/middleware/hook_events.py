"""What hooks are told of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from millstream.types import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEvent:
    """A moment in the life of a request, ``elapsed_ns`` after it came.

    What is not known at that moment is None. ``path`` is as the client sent it, without its
    query: not fit for a log as it is. ``stream_id`` and ``model`` are those of the stream that
    the request began.
    """

    method: str
    path: str
    route: str | None
    request_id: str | None
    flow_id: str | None
    tenant: str | None
    subject: str | None
    stream_id: str | None
    model: str | None
    elapsed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted(RequestEvent):
    """The limits have let it pass."""

    quota_remaining: int | None
    """Tokens left in the tightest scope beside what it holds itself; None is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstByte(RequestEvent):
    """The first byte of the answer is on its way; comments that only keep it open are none."""

    status: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(RequestEvent):
    """It is over, and so is the stream that it began.

    ``outcome`` is the stream's, else `millstream.middleware.ending.Ending` has the words.
    """

    status: int
    outcome: str
    usage: Usage | None
    """What the stream cost; None without one."""
    partial: bool
    """The stream was not generated to its end, and ``usage`` is what it came to until then."""


class RequestHooks(Protocol):
    """Hears of every request; derive from it to leave out what is not wanted.

    All three are awaited apart from the request, one after the other in this order, so none of
    them delays an answer or can refuse one. What they raise is logged.
    """

    async def on_admitted(self, event: Admitted) -> None:
        """The limits have let a request pass; not called for one that takes nothing of them."""
        return

    async def on_first_byte(self, event: FirstByte) -> None:
        """The answer begins; not called if it has no body."""
        return

    async def on_outcome(self, event: Ended) -> None:
        """A request has ended, whichever way, refusals included: once for each.

        A stream that outlives its connection is waited for.
        """
        return
