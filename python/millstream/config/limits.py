"""What a scope (the whole server, a model) may use."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from millstream.config.section import Section


class RequestLimit(Section):
    """A token bucket: any window of W seconds sees at most burst + per_second * W requests."""

    per_second: Annotated[int, Field(ge=1, le=1_000_000_000)]
    """Requests granted per second in the long run."""
    burst: Annotated[int | None, Field(ge=1, le=1_000_000_000)] = None
    """Requests granted at once after a pause; unset is `per_second`."""

    @property
    def capacity(self) -> int:
        """Requests that fit into the bucket."""
        return self.per_second if self.burst is None else self.burst


class TokenLimit(Section):
    """A sliding window over prompt and completion tokens together."""

    limit: Annotated[int, Field(ge=1, le=1 << 40)]
    """Tokens that any window may hold; a request that costs more is refused for good."""
    window_ms: Annotated[int, Field(ge=16, le=86_400_000)]
    """Length of the window in milliseconds."""


class LimitSettings(Section):
    """Every limit of one scope; what is unset is not limited."""

    requests: RequestLimit | None = None
    """Requests by token bucket."""
    tokens: TokenLimit | None = None
    """Tokens by sliding window."""
    concurrency: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    """Streams open at the same time."""

    def dimensions(self) -> tuple[str, ...]:
        """Names of the limits that are set."""
        return tuple(name for name in type(self).model_fields if getattr(self, name) is not None)
