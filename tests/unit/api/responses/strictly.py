"""openai-python's own types as the judge of what is written, nothing more and nothing less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

Model = TypeVar("Model", bound=BaseModel)

EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def as_response(text: str | bytes) -> Response:
    """The Response object in this JSON; raises where a member is wrong or unknown."""
    return known(Response.model_validate_json(text, strict=True))


def as_event(text: str | bytes) -> Any:
    """The event in this JSON; raises where a member is wrong or unknown."""
    return known(EVENTS.validate_json(text, strict=True))


def known(model: Model) -> Model:
    """The same, if none of its members, at any depth, is unknown to its type."""
    unknown = list(_unknown("", model))
    assert not unknown, unknown
    return model


def _unknown(path: str, value: object) -> Iterator[str]:
    if isinstance(value, BaseModel):
        yield from (f"{path}.{name}" for name in value.model_extra or {})
        for name, member in value:
            yield from _unknown(f"{path}.{name}", member)
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _unknown(f"{path}[{index}]", member)
