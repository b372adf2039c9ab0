"""The ``Priority`` field of a request (RFC 9218), read as the structured field that it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from millstream.api.tenant import tenant_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from millstream.config import Settings

HEADER = "Priority"
DEFAULT_URGENCY = 3
LEAST_URGENT = 7
MAX_CHARACTERS = 1024

_KEY = r"[a-z*][a-z0-9_\-.*]*"
_BARE = "|".join(
    (
        r"-?[0-9]{1,12}\.[0-9]{1,3}",
        r"@?-?[0-9]{1,15}",
        r'"(?:[ !#-\[\]-~]|\\["\\])*"',
        r"[A-Za-z*][A-Za-z0-9!#$%&'*+\-.^_`|~:/]*",
        r":[A-Za-z0-9+/=]*:",
        r"\?[01]",
        r'%"(?:[ !#$&-~]|%[0-9a-f]{2})*"',
    )
)
_PARAMETERS = rf"(?:; *{_KEY}(?:=(?:{_BARE}))?)*"
_ITEM = rf"(?:{_BARE}){_PARAMETERS}"
_INNER = rf"\( *(?:{_ITEM}(?: +{_ITEM})*)? *\){_PARAMETERS}"
_MEMBER = re.compile(rf"({_KEY})(?:=({_INNER}|{_ITEM})|{_PARAMETERS})")
_SEPARATOR = re.compile(r"[ \t]*,[ \t]*")
_URGENCY = re.compile(rf"(-?[0-9]{{1,15}}){_PARAMETERS}")


def urgency_of(request: Request, settings: Settings) -> int:
    """How urgent this request is, 0 to 7, lower first: as its tenant's, or less if it says so."""
    tenant = settings.tenants.get(tenant_of(request))
    most = DEFAULT_URGENCY if tenant is None else tenant.priority
    asked = asked_urgency(request.headers.getlist(HEADER))
    return most if asked is None else max(most, asked)


def asked_urgency(values: list[str]) -> int | None:
    """The ``u`` of the field; None where it is absent, malformed, or no urgency at all.

    RFC 9218 has what cannot be read ignored: the whole field if it is no dictionary, the member
    alone if its value is of another type or out of range.
    """
    text = ", ".join(values).strip(" ")
    if len(text) > MAX_CHARACTERS:
        return None
    members = _dictionary(text)
    found = None if members is None else _URGENCY.fullmatch(members.get("u") or "")
    urgency = -1 if found is None else int(found[1])
    return urgency if 0 <= urgency <= LEAST_URGENT else None


def _dictionary(text: str) -> dict[str, str | None] | None:
    """Members with their values as they were sent; None if this is no dictionary (RFC 9651)."""
    members: dict[str, str | None] = {}
    place = 0
    while place < len(text):
        member = _MEMBER.match(text, place)
        if member is None:
            return None
        members[member[1]] = member[2]
        if member.end() == len(text):
            return members
        separator = _SEPARATOR.match(text, member.end())
        if separator is None or separator.end() == len(text):
            return None
        place = separator.end()
    return members
