"""Less instead of nothing: a request may let ``max_tokens`` be shortened to what is left."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from millstream.errors import InvalidParameter

if TYPE_CHECKING:
    from starlette.requests import Request

    from millstream.streams.orchestrator import Generation
    from millstream.streams.stream import Stream

HEADER = "X-Adapt-Max-Tokens"
TAKEN_HEADER = "x-max-tokens"
_WORDS = {"true": 1, "false": 0}
_NUMBER = re.compile(r"[0-9]{1,9}")


def least_tokens(request: Request, by_body: bool | int | None) -> int:
    """With how few tokens the client is content; 0 if ``max_tokens`` is not to be shortened.

    The word of the body (``adapt_max_tokens``) counts, else that of the header; yes is 1. Raises
    `InvalidParameter` for a header that is neither a number nor a yes or no.
    """
    text = request.headers.get(HEADER, "0").strip().lower()
    by_header = int(text) if _NUMBER.fullmatch(text) else _WORDS.get(text)
    if by_header is None:
        raise InvalidParameter(f"{HEADER}: must be 0, 1 or a number of tokens.", param=HEADER)
    return by_header if by_body is None else int(by_body)


def taken_headers(generation: Generation, stream: Stream) -> dict[str, str]:
    """What was taken of ``max_tokens`` where it is less than was asked, by branch."""
    asked = [branch.params.max_tokens for branch in generation.branches]
    taken = [branch.max_tokens for branch in stream.branches]
    return {} if asked == taken else {TAKEN_HEADER: ", ".join(map(str, taken))}
