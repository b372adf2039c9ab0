"""What a scope (the whole server, a tenant, a model, a tenant's use of a model) may use."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from millstream.config.section import Section

Rate = Annotated[int | None, Field(ge=1, le=1_000_000_000)]


class RequestLimit(Section):
    """A token bucket: any window of W seconds sees at most burst + rate * W requests."""

    per_second: Rate = None
    """Requests granted per second in the long run."""
    per_minute: Rate = None
    """Requests granted per minute in the long run; one of the two must be set."""
    burst: Annotated[int | None, Field(ge=1, le=1_000_000_000)] = None
    """Requests granted at once after a pause; unset is one period's."""

    @model_validator(mode="after")
    def _exactly_one_rate(self) -> RequestLimit:
        if (self.per_second is None) == (self.per_minute is None):
            raise PydanticCustomError("one_rate", "needs either `per_second` or `per_minute`")
        return self

    @property
    def rate(self) -> int:
        """Requests granted per period."""
        return self.per_second or self.per_minute or 0

    @property
    def period_seconds(self) -> int:
        """The period of the rate: a second or a minute."""
        return 60 if self.per_second is None else 1

    @property
    def capacity(self) -> int:
        """Requests that fit into the bucket."""
        return self.rate if self.burst is None else self.burst


class TokenLimit(Section):
    """A sliding window over prompt and completion tokens together."""

    limit: Annotated[int, Field(ge=1, le=1 << 40)]
    """Tokens that any window may hold; a request that costs more is refused for good."""
    window_ms: Annotated[int, Field(ge=16, le=86_400_000)]
    """Length of the window in milliseconds."""


class BytesLimit(Section):
    """Memory that open streams may hold for their readers, counted in units of 1 KiB."""

    limit: Annotated[int, Field(ge=1024, le=1 << 50)]
    """Bytes of all open streams together."""
    per_stream: Annotated[int, Field(ge=4096, le=1 << 30)] = 10 << 20
    """Bytes that one stream may hold; it reserves the lesser of this and `streams.max_bytes`."""


class QueueLimit(Section):
    """Waiting for a limit instead of being refused: in order per tenant and model."""

    max_waiting: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Requests that may wait for this scope; further ones are refused."""
    deadline_seconds: Annotated[float, Field(gt=0, le=600)] = 10.0
    """How long a request may wait; one that would have to wait longer is refused at once."""


class LimitSettings(Section):
    """Every limit of one scope; what is unset is not limited."""

    requests: RequestLimit | None = None
    """Requests by token bucket."""
    tokens: TokenLimit | None = None
    """Tokens by sliding window."""
    concurrency: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    """Streams open at the same time."""
    bytes_in_flight: BytesLimit | None = None
    """Memory of open streams."""
    queue: QueueLimit | None = None
    """Lets requests wait for this scope's limits instead of refusing them."""

    def dimensions(self) -> tuple[str, ...]:
        """Names of the limits that are set."""
        names = (name for name in type(self).model_fields if name != "queue")
        return tuple(name for name in names if getattr(self, name) is not None)
