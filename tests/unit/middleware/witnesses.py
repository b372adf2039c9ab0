"""Those who only keep what they are told."""

from __future__ import annotations

from typing import Any

from millstream.middleware import Admitted, Ended, FirstByte, RequestHooks
from millstream.telemetry.logging import Field


class Trail:
    """An audit trail in memory: the event and its fields, None ones included."""

    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Field]]] = []

    def record(self, event: str, **fields: Field) -> None:
        self.records.append((event, fields))

    @property
    def present(self) -> list[dict[str, Field]]:
        """Each record as it would be written."""
        return [
            {"event": event, **{name: value for name, value in fields.items() if value is not None}}
            for event, fields in self.records
        ]

    def close(self) -> None:
        # Whoever opened it closes it.
        raise AssertionError


class Heard(RequestHooks):
    """Hooks that keep what they hear."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    async def on_admitted(self, event: Admitted) -> None:
        self.events.append(event)

    async def on_first_byte(self, event: FirstByte) -> None:
        self.events.append(event)

    async def on_outcome(self, event: Ended) -> None:
        self.events.append(event)

    @property
    def kinds(self) -> list[type]:
        return [type(event) for event in self.events]
