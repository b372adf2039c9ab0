"""Millstream serves language-model token streams.

The command line is `millstream`, the ASGI app `millstream.asgi:app`; what is named here is the
library for other applications. A name is loaded when it is first used, so that importing this
package costs nothing of what is not needed.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream._core import Encoder, Log, Reader, SseEvent, SseEventTooLarge, SseParser
    from millstream.admission import (
        Admission,
        BytesInFlight,
        Cost,
        Demand,
        Lease,
        LimitBook,
        Limits,
        MemoryLimiter,
        QueuePolicy,
        Refusal,
        RequestRate,
        ScopedLimits,
        TokenWindow,
    )
    from millstream.api.scopes import requires
    from millstream.assembly.identity import open_authenticator
    from millstream.config import load_settings
    from millstream.errors import ConfigError, CostExceedsLimit, MillstreamError
    from millstream.middleware.request_id import RequestIdMiddleware
    from millstream.streams.deliveries import Deliveries
    from millstream.streams.hub import Wakeups
    from millstream.streams.response import StreamResponse
    from millstream.streams.source import StreamSource
    from millstream.streams.sweeper import Sweeper
    from millstream.types import Failure, Kind, Outcome, SamplingParams, Settlement, Usage

try:
    __version__ = version("millstream")
except PackageNotFoundError:  # the source tree is on the path, nothing is installed
    __version__ = "0.0.0+source"

__all__ = [
    "Admission",
    "BytesInFlight",
    "ConfigError",
    "Cost",
    "CostExceedsLimit",
    "Deliveries",
    "Demand",
    "Encoder",
    "Failure",
    "Kind",
    "Lease",
    "LimitBook",
    "Limits",
    "Log",
    "MemoryLimiter",
    "MillstreamError",
    "Outcome",
    "QueuePolicy",
    "Reader",
    "Refusal",
    "RequestIdMiddleware",
    "RequestRate",
    "SamplingParams",
    "ScopedLimits",
    "Settlement",
    "SseEvent",
    "SseEventTooLarge",
    "SseParser",
    "StreamResponse",
    "StreamSource",
    "Sweeper",
    "TokenWindow",
    "Usage",
    "Wakeups",
    "__version__",
    "load_settings",
    "open_authenticator",
    "requires",
]

_HOMES = {
    "_core": ("Encoder", "Log", "Reader", "SseEvent", "SseEventTooLarge", "SseParser"),
    "admission": (
        "Admission",
        "BytesInFlight",
        "Cost",
        "Demand",
        "Lease",
        "LimitBook",
        "Limits",
        "MemoryLimiter",
        "QueuePolicy",
        "Refusal",
        "RequestRate",
        "ScopedLimits",
        "TokenWindow",
    ),
    "api.scopes": ("requires",),
    "assembly.identity": ("open_authenticator",),
    "config": ("load_settings",),
    "errors": ("ConfigError", "CostExceedsLimit", "MillstreamError"),
    "middleware.request_id": ("RequestIdMiddleware",),
    "streams.deliveries": ("Deliveries",),
    "streams.hub": ("Wakeups",),
    "streams.response": ("StreamResponse",),
    "streams.source": ("StreamSource",),
    "streams.sweeper": ("Sweeper",),
    "types": ("Failure", "Kind", "Outcome", "SamplingParams", "Settlement", "Usage"),
}
_HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}

# Type checkers take such a function for leave to import any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOME_OF[name]), name)
