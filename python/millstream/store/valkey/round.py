"""What one round trip of the writer carries: at most one entry a stream, so that none can miss."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from valkey.exceptions import ResponseError

if TYPE_CHECKING:
    from millstream.store.valkey.connection import Reply
    from millstream.store.valkey.outgoing import Outgoing
    from millstream.store.valkey.wire import Command

ROUND_BYTES = 1 << 19
ROUND_COMMANDS = 256


class _Entry(NamedTuple):
    """An entry of a stream: its place among the stream's commands, and how far it brings it."""

    place: int
    last: int
    size_bytes: int


class _Part(NamedTuple):
    """The commands for one stream."""

    outgoing: Outgoing
    commands: int
    entry: _Entry | None = None
    ends: bool = False


class Round:
    """Commands for several streams; `take` tells each stream what came of its own."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.stored_entries = self.stored_bytes = 0
        self._bytes = 0
        self._parts: list[_Part] = []

    @property
    def full(self) -> bool:
        """Whether the rest had better wait for the next round."""
        return self._bytes >= ROUND_BYTES or len(self.commands) >= ROUND_COMMANDS

    def add(self, outgoing: Outgoing) -> None:
        """What is due of this stream; it is sure of nothing until its replies have come."""
        outgoing.sure = False
        start = len(self.commands)
        if outgoing.written:
            self.commands.extend(outgoing.end())
            self._parts.append(_Part(outgoing, len(self.commands) - start, ends=True))
            return
        if not outgoing.created:
            self.commands.extend(outgoing.create())
        entry = self._add_entry(outgoing, start)
        self._parts.append(_Part(outgoing, len(self.commands) - start, entry))

    def _add_entry(self, outgoing: Outgoing, start: int) -> _Entry | None:
        packed = outgoing.entry()
        if packed is None:
            return None
        entry = _Entry(len(self.commands) - start, packed.last, packed.size_bytes)
        self._bytes += packed.size_bytes
        self.commands.extend(packed.commands)
        return entry

    def take(self, replies: list[Reply]) -> ResponseError | None:
        """Hand the replies out; a refusal, if there was one."""
        refusal = None
        position = 0
        for part in self._parts:
            own = replies[position : position + part.commands]
            position += part.commands
            errors = [reply for reply in own if isinstance(reply, ResponseError)]
            if not errors:
                self._settle(part, own)
            elif not all(map(_out_of_order, errors)):
                refusal = errors[0]
        return refusal

    def _settle(self, part: _Part, replies: list[Reply]) -> None:
        outgoing, entry = part.outgoing, part.entry
        if entry is not None:
            if replies[entry.place] is None:
                return  # the log is gone: ask before anything else is written
            outgoing.cursor = entry.last
            self.stored_entries += 1
            self.stored_bytes += entry.size_bytes
        outgoing.created = outgoing.sure = True
        outgoing.ended = part.ends


def _out_of_order(error: ResponseError) -> bool:
    """Whether Valkey has this entry or a later one: which of them, only a question can tell."""
    return "equal or smaller" in str(error)
