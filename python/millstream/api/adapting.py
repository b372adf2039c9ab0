"""Less instead of nothing: a request may let ``max_tokens`` be shortened to what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.errors import InvalidParameter

if TYPE_CHECKING:
    from starlette.requests import Request

    from millstream.streams.orchestrator import Generation
    from millstream.streams.stream import Stream

HEADER = "X-Adapt-Max-Tokens"
TAKEN_HEADER = "x-max-tokens"
_WORDS = {"1": True, "true": True, "0": False, "false": False}


def adapts(request: Request, by_body: bool | None) -> bool:
    """The word of the body (``adapt_max_tokens``), else that of the header, else no.

    Raises `InvalidParameter` for a header that is neither 1 nor 0.
    """
    text = request.headers.get(HEADER)
    by_header = False if text is None else _WORDS.get(text.strip().lower())
    if by_header is None:
        raise InvalidParameter(f"{HEADER}: must be 1 or 0.", param=HEADER)
    return by_header if by_body is None else by_body


def taken_headers(generation: Generation, stream: Stream) -> dict[str, str]:
    """What was taken of ``max_tokens`` where it is less than was asked, by branch."""
    asked = [branch.params.max_tokens for branch in generation.branches]
    taken = [branch.max_tokens for branch in stream.branches]
    return {} if asked == taken else {TAKEN_HEADER: ", ".join(map(str, taken))}
