"""What a resumed read has to know of a stream, here or in another process."""

from __future__ import annotations

from typing import Literal

import msgspec

DialectName = Literal["chat", "completion", "native", "responses"]


class BranchDescriptor(msgspec.Struct, frozen=True, kw_only=True):
    """One of the requests that share a stream."""

    model: str
    chunk_id: str
    """The ``id`` member of its chunks."""
    choices: int = 1


class Descriptor(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream was made: kept with it, so that every later read speaks as the first did.

    ``epoch`` counts the producers of the stream, the first being 1; times are Unix seconds.
    """

    id: str
    epoch: int = 1
    tenant: str = "default"
    route: str
    dialect: DialectName
    created: int
    branches: tuple[BranchDescriptor, ...]
    include_usage: bool = False
    metadata: bool = False
    fields: bool = False
    """Whether event streams carry ``model-id:``, ``chunk-id:`` and ``token-count:`` lines."""
    resumable: bool = False
    """Whether frames carry event ids."""
    integrity: bool = False
    max_bytes: int = 1 << 20
    max_records: int = 65536
    retention_seconds: float = 600.0
    keep_alive_seconds: float = 10.0
    """Silence after which a reader is sent a comment; 0 sends none."""
    blocked_send_seconds: float = 30.0
    """How long a reader may take nothing before its connection is given up."""
    response: str | None = None
    """Of a stream in the Responses dialect: its Response object as JSON, less what changes."""
