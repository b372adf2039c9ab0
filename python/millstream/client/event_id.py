"""The id that every stored record has on the wire: `<epoch>-<seq>`, with checks `-<crc>` more."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SHAPE = re.compile(r"([0-9]{1,19})-([0-9]{1,19})(?:-([0-9a-f]{8}))?")


@dataclass(frozen=True, slots=True)
class EventId:
    """Where a reader is; ``crc`` is that of all text up to there."""

    epoch: int
    seq: int
    crc: int | None = None

    @classmethod
    def parse(cls, text: str) -> EventId:
        """Read an id; raises ValueError on anything else."""
        found = _SHAPE.fullmatch(text)
        if found is None:
            raise ValueError(f"not an event id: {text!r}")
        epoch, seq, crc = found.groups()
        return cls(int(epoch), int(seq), None if crc is None else int(crc, 16))

    def __str__(self) -> str:
        crc = "" if self.crc is None else f"-{self.crc:08x}"
        return f"{self.epoch}-{self.seq}{crc}"
