"""What one tenant may do, and has otherwise than all."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from millstream.config.limits import LimitSettings
from millstream.config.models import TimeoutOverrides
from millstream.config.section import Section
from millstream.config.streams import StreamOverrides

RouteName = Literal["chat", "completions", "responses", "streams", "models", "durable"]


class TenantSettings(Section):
    """One tenant; `default` is whoever need not say who they are."""

    models: tuple[str, ...] | None = None
    """Models that this tenant may use; unset is all, empty is none."""
    routes: tuple[RouteName, ...] | None = None
    """What this tenant may begin; unset is all. It may always read and cancel what it has begun."""
    limits: LimitSettings = LimitSettings()
    """What this tenant may use of all models together."""
    model_limits: Annotated[dict[str, LimitSettings], Field(default_factory=dict)]
    """What this tenant may use of one model, by the model's name."""
    priority: Annotated[int, Field(ge=0, le=7)] = 3
    """Urgency in the queue (RFC 9218): 0 goes first; a request may ask for less, never for more."""
    timeouts: TimeoutOverrides = TimeoutOverrides()
    """How long this tenant's streams may take, where it is not as with the model."""
    streams: StreamOverrides = StreamOverrides()
    """How this tenant's streams are kept and watched."""
    tier: Literal["P0", "P1", "P2", "P3"] | None = None
    """What is shed first when capacity is short, P3 before P0; unset is the model's.

    It is kept and shown; nothing is shed by it yet.
    """
    on_expiry: Literal["finish", "cut"] = "finish"
    """Whether a connection whose token expires goes on to the stream's end, or is cut."""
