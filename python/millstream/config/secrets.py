"""Texts without the passwords that they hold."""

from __future__ import annotations

import re

# Up to the last @, since a password that nobody has encoded may have any character.
_IN_USER = re.compile(r"(?<=://)([^:\s]*:).*(?=@)", re.DOTALL)
_IN_QUERY = re.compile(r"(?<=[?&])(password=)[^&#]*", re.IGNORECASE)


def masked(text: str) -> str:
    """The text, with ``***`` for the password of a URL."""
    return _IN_QUERY.sub(r"\1***", _IN_USER.sub(r"\1***", text))
