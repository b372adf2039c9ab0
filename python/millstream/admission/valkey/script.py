"""The script that decides inside Valkey, and calls of it in the protocol's form."""

from __future__ import annotations

import hashlib
import re
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
    """One run of the script. ``quotas`` are packed already; an operation without has none."""

    keys: Keys
    operation: Operation
    quotas: bytes = b""

    def packed(self, *, in_full: bool = False) -> bytes:
        """The command; ``in_full`` for a server that does not know the script."""
        words = 3 + self.keys.words + bool(self.quotas)
        head = _IN_FULL if in_full else _BY_DIGEST
        return b"*%d\r\n%b%b%b%b" % (
            words,
            head,
            self.keys.packed,
            _bulk(_encode(self.operation)),
            self.quotas,
        )


def packed_quotas(quotas: list[tuple[int, ...]]) -> bytes:
    """Quotas of the scopes of a call, once for many calls."""
    return _bulk(_encode(quotas))


def answer_of(reply: bytes) -> object:
    """What the script has answered."""
    answer: object = _decode(reply)
    return answer
