"""Texts without the passwords that they hold."""

from __future__ import annotations

import re

# Up to the last @, since a password that nobody has encoded may have any character.
_IN_USER = re.compile(r"(?<=://)([^:\s]*:).*(?=@)", re.DOTALL)
# Over HTTP a user without a password is a token.
_TOKEN_AS_USER = re.compile(r"(?<=http://|ttps://)[^:/?#\s]+(?=@)")
_WORDS = "pass|pwd|secret|token|key|sig|cred|auth"
_IN_QUERY = re.compile(rf"(?<=[?&])([^=&#\s]*(?:{_WORDS})[^=&#\s]*=)[^&#\s'\"]*", re.IGNORECASE)
_WITHOUT_SCHEME = re.compile(r":(?!//)[^\s@]*(?=@)")


def masked(text: str) -> str:
    """The text, with ``***`` for the secrets of a URL."""
    text = _TOKEN_AS_USER.sub("***", _IN_USER.sub(r"\1***", text))
    return _IN_QUERY.sub(r"\1***", text)


def scrubbed(text: str) -> str:
    """The same of a message about a URL that may be malformed: too much rather than too little."""
    return "\n".join(_WITHOUT_SCHEME.sub(":***", masked(line)) for line in text.split("\n"))


def hidden(value: object) -> object:
    """A tree of settings with every text in it `masked`."""
    if isinstance(value, dict):
        return {key: hidden(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [hidden(below) for below in value]
    return masked(value) if isinstance(value, str) else value
