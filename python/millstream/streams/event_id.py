"""The names of a stream's records on the wire."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FORM = re.compile(r"([0-9]{1,19})-([0-9]{1,19})(?:-([0-9a-f]{8}))?", re.ASCII)
_BARE = re.compile(r"[0-9]{1,19}", re.ASCII)
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class EventId:
    """``<epoch>-<seq>``, and with integrity ``-<crc>``, the CRC-32 of the text up to there.

    ``epoch`` counts the stream's producers; None is whoever made the record.
    """

    epoch: int | None
    seq: int
    crc: int | None = None

    def __str__(self) -> str:
        """As it stands in a frame."""
        parts = [] if self.epoch is None else [str(self.epoch)]
        parts.append(str(self.seq))
        if self.crc is not None:
            parts.append(f"{self.crc:08x}")
        return "-".join(parts)


def parse(text: str, *, bare: bool = False) -> EventId:
    """The id that ``text`` is; with ``bare``, a seq alone is one too. Raises ValueError."""
    if bare and _BARE.fullmatch(text):
        return EventId(None, _number(text))
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:100]!r} is not an event id of the form <epoch>-<seq>")
    epoch, seq, crc = found.groups()
    return EventId(_number(epoch), _number(seq), None if crc is None else int(crc, 16))


def _number(digits: str) -> int:
    number = int(digits)
    if number > _LARGEST:
        raise ValueError(f"{digits} is larger than any number of an event id")
    return number
