"""Millstream serves language-model token streams.

The command line is `millstream`, the ASGI app `millstream.asgi:app`; what is named here is the
library for other applications.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from millstream.errors import ConfigError, MillstreamError
from millstream.types import Kind, Outcome, SamplingParams, Usage

try:
    __version__ = version("millstream")
except PackageNotFoundError:  # the source tree is on the path, nothing is installed
    __version__ = "0.0.0+source"

__all__ = [
    "ConfigError",
    "Kind",
    "MillstreamError",
    "Outcome",
    "SamplingParams",
    "Usage",
    "__version__",
]
