"""Millstream's own events as values."""

from __future__ import annotations

from typing import Any

import msgspec

from millstream._core import SseEvent
from millstream.types import Failure, Outcome, Settlement, Usage


class Token(msgspec.Struct, frozen=True):
    """Text of one choice; several tokens may have been merged."""

    choice: int
    text: str
    tokens: int = 1
    branch: int = 0


class Finish(msgspec.Struct, frozen=True):
    """Why one choice ended."""

    choice: int
    finish_reason: str
    branch: int = 0


class Used(msgspec.Struct, frozen=True):
    """What one branch cost."""

    usage: Usage
    branch: int = 0


class Failed(msgspec.Struct, frozen=True):
    """What went wrong in one branch, or in the whole stream."""

    error: dict[str, Any]
    branch: int = 0


class BranchDone(msgspec.Struct, frozen=True):
    """How one of several branches ended."""

    branch: int
    outcome: Outcome


class Leaf(msgspec.Struct, frozen=True):
    """The digest of eight token records, the last of them named by its id."""

    index: int
    digest: str
    last: str


class Missing(msgspec.Struct, frozen=True):
    """The seqs that are lost, both ends with them."""

    first: int
    last: int


class Snapshot(msgspec.Struct, frozen=True):
    """The text of a choice so far, without the first ``omitted_bytes`` of its UTF-8."""

    text: str
    branch: int = 0
    choice: int = 0
    omitted_bytes: int = 0
    finish_reason: str | None = None


class Gap(msgspec.Struct, frozen=True):
    """Records that are lost, and the text so far if it was asked for."""

    missing: Missing
    oldest: int
    latest: int
    text: tuple[Snapshot, ...] | None = None


class Handover(msgspec.Struct, frozen=True):
    """The server goes down; come back after ``retry_ms``."""

    stream_id: str
    retry_ms: int


class Checks(msgspec.Struct, frozen=True):
    """The sum of a whole stream's text: token records, bytes, CRC-32 and Merkle root in hex."""

    records: int
    bytes: int
    crc: str
    root: str


class Done(msgspec.Struct, frozen=True):
    """How the stream ended."""

    outcome: Outcome
    checks: Checks | None = None
    settled: Settlement | None = None


Event = Token | Finish | Used | Failed | BranchDone | Leaf | Gap | Handover | Done

_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    name: msgspec.json.Decoder(shape)
    for name, shape in {
        "token": Token,
        "finish": Finish,
        "usage": Used,
        "error": Failed,
        "branch_done": BranchDone,
        "leaf": Leaf,
        "gap": Gap,
        "handover": Handover,
        "done": Done,
    }.items()
}

# These are about the stream, not part of its log: they have no id of their own.
UNSTORED = (Leaf, Gap)


def decode(event: SseEvent) -> Event | None:
    """The event as a value, None for an unknown name; raises ``msgspec.DecodeError``."""
    decoder = _DECODERS.get(event.event)
    return decoder.decode(event.data) if decoder else None


def failure_of(error: object) -> Failure | None:
    """OpenAI's error object as a value; None for anything else."""
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return None
    texts = {name: str(error.get(name) or "") for name in ("message", "type", "code")}
    param = error.get("param")
    return Failure(**texts, param=None if param is None else str(param))
