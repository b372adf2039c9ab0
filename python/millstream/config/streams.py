"""How much of a stream is kept and for how long, and how its connection is watched."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from millstream.config.section import Section

MaxBytes = Annotated[int, Field(ge=4096, le=1 << 30)]
MaxRecords = Annotated[int, Field(ge=16, le=1 << 24)]
KeepAlive = Annotated[float, Field(ge=0, le=3600)]
BlockedSend = Annotated[float, Field(gt=0, le=3600)]
Retention = Annotated[float, Field(ge=0, le=7 * 86_400)]
Grace = Annotated[float, Field(ge=0, le=86_400)]


class StreamPolicy(Section):
    """What holds for the streams of one tenant and model."""

    resumable_default: bool = False
    """Whether a stream is resumable unless its request says otherwise."""
    retention_seconds: Retention = 600.0
    """How long a resumable stream can still be read after its end."""
    detach_grace_seconds: Grace = 30.0
    """How long a resumable stream goes on when its last reader has left."""
    max_bytes: MaxBytes = 1 << 20
    """Text that one stream's log keeps; older text goes first."""
    max_records: MaxRecords = 65536
    """Records that one stream's log keeps; older ones go first."""
    keep_alive_seconds: KeepAlive = 10.0
    """Silence after which a comment is sent, from admission on; 0 switches comments off."""
    blocked_send_seconds: BlockedSend = 30.0
    """How long a client may take nothing before its connection is given up."""
    fields: bool = False
    """Whether frames have `model-id`, `chunk-id`, `token-count` lines unless a request differs."""


class StreamSettings(StreamPolicy):
    """What holds for every stream, unless `[tenants.T.streams]` or `[models.M.streams]` differ."""

    coalesce_ms: Annotated[int, Field(ge=0, le=1000)] = 0
    """Least time between two sends of one stream; more saves CPU and delays all but the first."""


class StreamOverrides(Section):
    """What a tenant or a model has otherwise than `[streams]`; unset keys change nothing."""

    resumable_default: bool | None = None
    """Whether a stream is resumable unless its request says otherwise."""
    retention_seconds: Retention | None = None
    """How long a resumable stream can still be read after its end."""
    detach_grace_seconds: Grace | None = None
    """How long a resumable stream goes on when its last reader has left."""
    max_bytes: MaxBytes | None = None
    """Text that one stream's log keeps; older text goes first."""
    max_records: MaxRecords | None = None
    """Records that one stream's log keeps; older ones go first."""
    keep_alive_seconds: KeepAlive | None = None
    """Silence after which a comment is sent, from admission on; 0 switches comments off."""
    blocked_send_seconds: BlockedSend | None = None
    """How long a client may take nothing before its connection is given up."""
    fields: bool | None = None
    """Whether frames have `model-id`, `chunk-id`, `token-count` lines unless a request differs."""


def policy_of(settings: StreamSettings, *overrides: StreamOverrides) -> StreamPolicy:
    """The settings with these over them, later ones over earlier ones."""
    values = {name: getattr(settings, name) for name in StreamPolicy.model_fields}
    for override in overrides:
        values |= override.model_dump(exclude_none=True)
    return StreamPolicy.model_construct(**values)
