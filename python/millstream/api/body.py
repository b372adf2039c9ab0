"""Reading a JSON body: media type, length, syntax, then fields."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect, Request

from millstream.api.errors import BodyRefused
from millstream.errors import InvalidParameter

Model = TypeVar("Model", bound=BaseModel)


async def read_json(request: Request, model: type[Model], *, max_bytes: int) -> Model:
    """The body as this model.

    Raises `BodyRefused` (415, 413, 400) and `InvalidParameter` for the first field that is wrong.
    """
    _require_json(request)
    body = await _read(request, max_bytes)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _explained(error) from None


def _require_json(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise BodyRefused(415, "The Content-Type must be application/json.")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise BodyRefused(415, f"The Content-Encoding '{encoding[:50]}' is not supported.")


async def _read(request: Request, max_bytes: int) -> bytes:
    too_large = BodyRefused(413, f"The body is larger than {max_bytes} bytes.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise too_large
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise too_large
    except ClientDisconnect:
        raise BodyRefused(400, "The client left before the body was complete.") from None
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
