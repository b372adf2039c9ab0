"""The models that clients can name, and where they lead."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from millstream.config.limits import LimitSettings
from millstream.config.section import Section
from millstream.config.streams import StreamOverrides

LONGEST_SECONDS = 86_400.0
"""The longest deadline that can be set."""
Deadline = Annotated[float, Field(gt=0, le=LONGEST_SECONDS)]
DeadlineOverride = Annotated[float | None, Field(gt=0, le=LONGEST_SECONDS)]


class RouteSettings(Section):
    """One way to answer for a model."""

    engine: Annotated[str, Field(min_length=1)]
    """Name of an engine under `[engines]`."""


class TimeoutSettings(Section):
    """How long a stream may take; a keep-alive comment resets none of these."""

    first_token_seconds: Deadline = 30.0
    """From admission to the first token; queue and prefill included."""
    idle_seconds: Deadline = 20.0
    """Between two tokens."""
    total_seconds: Deadline = 600.0
    """From admission to the last token."""


class TimeoutOverrides(Section):
    """What a tenant has otherwise than the model; unset keys change nothing."""

    first_token_seconds: DeadlineOverride = None
    """From admission to the first token; queue and prefill included."""
    idle_seconds: DeadlineOverride = None
    """Between two tokens."""
    total_seconds: DeadlineOverride = None
    """From admission to the last token."""


class ModelSettings(Section):
    """A model as clients see it."""

    routes: tuple[RouteSettings, ...]
    """Engines that answer for this model: exactly one for now."""
    max_tokens: Annotated[int, Field(ge=1, le=1 << 24)] = 2048
    """Most completion tokens of one choice; also what a request without `max_tokens` gets."""
    timeouts: TimeoutSettings = TimeoutSettings()
    """How long a stream of this model may take."""
    limits: LimitSettings = LimitSettings()
    """What all clients of this model may use together."""
    streams: StreamOverrides = StreamOverrides()
    """How the streams of this model are kept and watched."""

    @field_validator("routes")
    @classmethod
    def _exactly_one_route(cls, routes: tuple[RouteSettings, ...]) -> tuple[RouteSettings, ...]:
        if len(routes) != 1:
            raise PydanticCustomError(
                "one_route",
                "exactly one route is supported for now, there are {count}",
                {"count": len(routes)},
            )
        return routes
