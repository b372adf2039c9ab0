"""The script that decides inside Valkey, and calls of it in the protocol's form."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

import msgspec

PARTS = ("state", "timeline", "bucket", "window", "scope", "answer", "operations")

SERVER_TIME = -1

_CONSTANTS = re.compile(r"^local ([A-Z_, ]+) =\s+([-\d, ]+)$", re.MULTILINE)
_WORDS = re.compile(r"[-\w]+")
_COMMENTS = re.compile(r"--.*")
_NAMES = re.compile(r"(?<!')\b[A-Z][A-Z_]+\b(?!')")

Operation = tuple[object, ...]

# What can be called is the time of a test's clock: read when the call is sent, not when it is made.
_encode = msgspec.msgpack.Encoder(enc_hook=lambda clock: clock()).encode
_decode = msgspec.msgpack.Decoder().decode


def _text() -> str:
    folder = files(__package__) / "lua"
    return _folded("\n".join((folder / f"{part}.lua").read_text() for part in PARTS))


def _folded(text: str) -> str:
    """The script with its constants written out and without its comments.

    All of it runs at every call, and a function that captures a constant takes time to make: like
    this a decision takes a fifth less of the server's time (`bench_limiter_valkey`).
    """
    values: dict[str, str] = {}
    for names, numbers in _CONSTANTS.findall(text):
        values |= zip(_WORDS.findall(names), _WORDS.findall(numbers), strict=True)
    code = _COMMENTS.sub("", _CONSTANTS.sub("", text))
    return _NAMES.sub(lambda name: values.get(name[0], name[0]), code)


def _bulk(data: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(data), data)


TEXT = _text().encode()
DIGEST = hashlib.sha1(TEXT, usedforsecurity=False).hexdigest().encode()
_BY_DIGEST = _bulk(b"EVALSHA") + _bulk(DIGEST)
_IN_FULL = _bulk(b"EVAL") + _bulk(TEXT)


class Keys(NamedTuple):
    """Keys of a call as they go over the wire."""

    packed: bytes
    words: int

    @classmethod
    def of(cls, names: list[str]) -> Keys:
        """The keys of these names, their number first."""
        words = [str(len(names)), *names]
        return cls(b"".join(_bulk(word.encode()) for word in words), len(words))


class Call(NamedTuple):
    """One operation of the script on one set of keys.

    ``head`` is its name and what is the same for all calls; ``item`` is what it is about.
    ``quotas`` are packed already, those of the scopes in the order of their keys, if they matter.
    """

    keys: Keys
    head: Operation
    item: Operation
    quotas: bytes = b""


class Command:
    """One run of the script, for calls of one operation on the same keys, in their order."""

    __slots__ = ("_head", "_keys", "_quotas", "items")

    def __init__(self, first: Call) -> None:
        self._keys = first.keys
        self._head = first.head
        self._quotas = b""
        self.items: list[Operation] = []

    def add(self, call: Call) -> None:
        """Do this too."""
        self.items.append(call.item)
        self._quotas = self._quotas or call.quotas

    def packed(self, *, in_full: bool = False) -> bytes:
        """As it goes over the wire; ``in_full`` for a server that does not know the script."""
        return b"*%d\r\n%b%b%b%b" % (
            3 + self._keys.words + bool(self._quotas),
            _IN_FULL if in_full else _BY_DIGEST,
            self._keys.packed,
            _bulk(_encode((*self._head, self.items))),
            self._quotas,
        )


def commands_of(calls: Sequence[Call]) -> tuple[list[Command], list[tuple[int, int]]]:
    """Calls put together as far as they can be, and where the answer to each of them is found: in
    the reply to which command, and at which place there.

    What loads and stores a scope's state once for many decisions serves a crowd several times as
    fast. Calls on the same scopes keep their order.
    """
    commands: list[Command] = []
    places: list[tuple[int, int]] = []
    known: dict[tuple[object, int], int] = {}
    for call in calls:
        number = known.setdefault((call.head[0], id(call.keys)), len(commands))
        if number == len(commands):
            commands.append(Command(call))
        command = commands[number]
        places.append((number, len(command.items)))
        command.add(call)
    return commands, places


def packed_quotas(quotas: list[tuple[int, ...]]) -> bytes:
    """Quotas of the scopes of a call, once for many calls."""
    return _bulk(_encode(quotas))


def answers_of(reply: bytes) -> list[object]:
    """What the script has answered to each of a command's calls."""
    answers: list[object] = _decode(reply)
    return answers
