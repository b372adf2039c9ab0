"""Reading a JSON body: media type, length, syntax, then fields."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from millstream.api.errors import BodyRefused
from millstream.errors import InvalidParameter

Model = TypeVar("Model", bound=BaseModel)

READ_ON = 4
"""A body of up to this many times the limit is read to its end, and forgotten, before the refusal:
the connection of a client that still sends would be reset, the answer lost with it."""


async def read_json(
    request: Request,
    model: type[Model],
    *,
    max_bytes: int,
    max_seconds: float,
    optional: bool = False,
) -> Model:
    """The body as this model; with ``optional``, no body at all is an empty object.

    Raises `BodyRefused` (415, 413, 408, 400) and `InvalidParameter` for the first field that is
    wrong.
    """
    if not optional:
        _require_json(request)
    body = await read_body(request, max_bytes=max_bytes, max_seconds=max_seconds)
    if optional:
        if not body:
            return model.model_validate({})
        _require_json(request)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _explained(error) from None


async def read_body(request: Request, *, max_bytes: int, max_seconds: float) -> bytes:
    """The whole body, whatever it is; raises `BodyRefused` (413, 408, 415)."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise BodyRefused(415, f"The Content-Encoding '{encoding[:50]}' is not supported.")
    try:
        async with asyncio.timeout(max_seconds):
            return await _read(request, max_bytes)
    except TimeoutError:
        message = f"The body was not complete within {max_seconds:g} seconds."
        raise BodyRefused(408, message) from None


def _require_json(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise BodyRefused(415, "The Content-Type must be application/json.")


async def _read(request: Request, max_bytes: int) -> bytes:
    too_large = BodyRefused(413, f"The body is larger than {max_bytes} bytes.")
    said = request.headers.get("content-length", "")
    length = int(said[:20]) if said.isdecimal() else 0
    if length > READ_ON * max_bytes or (length > max_bytes and "expect" in request.headers):
        raise too_large
    body, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > READ_ON * max_bytes:
            raise too_large
        if size <= max_bytes:
            body += chunk
    if size > max_bytes:
        raise too_large
    return bytes(body)


def _explained(error: ValidationError) -> Exception:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    first = max(
        (problem for problem in problems if problem["loc"][:1] == problems[0]["loc"][:1]),
        key=_progress,
    )
    if first["type"] == "json_invalid":
        return BodyRefused(400, f"The body is not JSON. {first['msg']}")
    field = _path(first["loc"])
    return InvalidParameter(f"{field or 'body'}: {first['msg']}", param=field or None)


def _progress(problem: ErrorDetails) -> tuple[list[int], bool]:
    """How far a member of a union got; the one that got furthest is the one that was meant."""
    indexes = [part for part in problem["loc"] if isinstance(part, int)]
    return indexes, not problem["type"].endswith("_type")


def _path(location: tuple[int | str, ...]) -> str:
    """``("messages", 0, "role")`` as ``messages[0].role``; names of union members left out."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part not in _UNION_MEMBERS and "[" not in part:
            path += f".{part}" if path else part
    return path


# What pydantic calls the members of the unions in `schemas`; constrained ones hold a bracket.
_UNION_MEMBERS = frozenset({"str", "constrained-str", "int"})
