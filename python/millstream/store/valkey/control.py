"""What processes ask of each other, each over the one stream that the other reads."""

from __future__ import annotations

import msgspec

from millstream.store.valkey.keys import control_key
from millstream.store.valkey.wire import Command

CONTROL_ENTRIES = 1024


class Watch(msgspec.Struct, frozen=True, tag="watch"):
    """Somebody here reads these streams of yours at this moment."""

    streams: list[str]


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Cancel your stream, or a branch of it."""

    stream: str
    branch: int | None = None


class Discard(msgspec.Struct, frozen=True, tag="discard"):
    """Forget your stream, which has ended."""

    stream: str


class Wake(msgspec.Struct, frozen=True, tag="wake"):
    """Written to one's own stream: end the read that is under way and begin another."""


Message = Watch | Cancel | Discard | Wake

_decoder = msgspec.json.Decoder(Message)


def post(process: str, message: Message) -> Command:
    """The command that tells a process something; its reply is None if there is no such process."""
    bound = ("MAXLEN", "~", CONTROL_ENTRIES, "*")
    return ("XADD", control_key(process), "NOMKSTREAM", *bound, "m", msgspec.json.encode(message))


def opened(process: str) -> Command:
    """The command that makes a process's own stream; its reply is the id to read on from."""
    bound = ("MAXLEN", "~", CONTROL_ENTRIES, "*")
    return ("XADD", control_key(process), *bound, "m", msgspec.json.encode(Wake()))


def parse(text: bytes) -> Message:
    """Raises `msgspec.DecodeError` for anything else."""
    return _decoder.decode(text)
