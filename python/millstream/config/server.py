"""Where and how the server listens, and what it logs."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import Field

from millstream.config.section import Section

MEBIBYTE = 1 << 20

# As browsers send it: lower case, no path, no slash at the end.
Origin = Annotated[
    str,
    Field(pattern=r"^(\*|https?://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?)$", max_length=300),
]


class ServerSettings(Section):
    """The listening socket, the workers and their end."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on; a name other than `localhost` counts as not loopback."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """TCP port; 0 takes a free one, which `millstream serve` prints."""
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    """Granian worker processes; they share one engine process per torch model."""
    drain_seconds: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """How long open streams may run on after SIGTERM."""
    max_body_bytes: Annotated[int, Field(ge=1024, le=256 * MEBIBYTE)] = 4 * MEBIBYTE
    """Largest request body; a larger one is refused with 413."""
    body_seconds: Annotated[float, Field(gt=0, le=3600)] = 60.0
    """How long a request's body may take to arrive; a slower one is refused with 408."""
    max_connections: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    """Open connections per worker; further ones wait in the listen queue."""
    cors_origins: tuple[Origin, ...] = ()
    """Origins whose pages may call the API, as `https://app.example`; `*` is every one."""

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class LogSettings(Section):
    """What the server writes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe level that is written."""
    format: Literal["auto", "json", "text"] = "auto"
    """`json` is one object a line, `text` is key=value; `auto` is text on a terminal only."""
    access: bool = False
    """Whether a line is written for every request, at its end."""
