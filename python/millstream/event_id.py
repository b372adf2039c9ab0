"""The names of a stream's records on the wire, for who writes them and who reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

_FORM = re.compile(r"([0-9]{1,19})-([0-9]{1,19})(?:-([0-9a-f]{8}))?")
_BARE = re.compile(r"[0-9]{1,19}")
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class EventId:
    """``<epoch>-<seq>``, and with integrity ``-<crc>``, the CRC-32 of the text up to there.

    ``epoch`` counts the stream's producers from 1; 0 is whoever made the record.
    """

    epoch: int
    seq: int
    crc: int | None = None

    @classmethod
    def parse(cls, text: str, *, bare: bool = False) -> Self:
        """The id that ``text`` is; with ``bare``, a seq alone is one too. Raises ValueError."""
        if bare and _BARE.fullmatch(text):
            return cls(0, _number(text))
        found = _FORM.fullmatch(text)
        if found is None:
            raise ValueError(f"{text[:100]!r} is not an event id of the form <epoch>-<seq>")
        epoch, seq, crc = found.groups()
        if _number(epoch) == 0:
            raise ValueError(f"{text!r} is not an event id: epochs begin at 1")
        return cls(_number(epoch), _number(seq), None if crc is None else int(crc, 16))

    def __str__(self) -> str:
        """As it stands in a frame."""
        epoch = f"{self.epoch}-" if self.epoch else ""
        crc = "" if self.crc is None else f"-{self.crc:08x}"
        return f"{epoch}{self.seq}{crc}"


def _number(digits: str) -> int:
    number = int(digits)
    if number > _LARGEST:
        raise ValueError(f"{digits} is larger than any number of an event id")
    return number
