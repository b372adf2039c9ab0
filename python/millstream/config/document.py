"""The text of a configuration file, with its age and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """``written_ns`` is in unix nanoseconds; ``origin`` is what messages about it begin with."""

    written_ns: int
    text: str
    origin: str
