"""The media type of a stream, which decides how its content is kept and shown."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_LENGTH = 256
_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_HEADER = re.compile(rf"({_NAME}/{_NAME})\s*(;[\x20-\x7e]*)?")


@dataclass(frozen=True, slots=True)
class ContentType:
    """A media type: as it was sent, and in the form that is compared."""

    header: str
    essence: str
    """``type/subtype`` in lower case; parameters never make two types differ."""

    @property
    def is_json(self) -> bool:
        """Whether content is a sequence of JSON messages rather than of bytes."""
        return self.essence == "application/json"

    @property
    def is_text(self) -> bool:
        """Whether events carry the content as it is; other content is base64 there."""
        return self.is_json or self.essence.startswith("text/")


OCTET_STREAM = ContentType("application/octet-stream", "application/octet-stream")
"""What a stream holds whose creator said nothing."""


def parse_content_type(header: str) -> ContentType | None:
    """The media type of a header's value; None for what is none or longer than 256 characters."""
    value = header.strip()
    found = _HEADER.fullmatch(value) if len(value) <= MAX_LENGTH else None
    return None if found is None else ContentType(value, found[1].lower())
