"""Streams by the names that clients send."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from millstream.api.errors import RouteRefused

if TYPE_CHECKING:
    from millstream.api.services import Services
    from millstream.store.recording import Recording
    from millstream.streams.stream import Stream

# What `new_stream_id` makes; nothing else is worth a question to a store.
_STREAM_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


async def known_stream(
    services: Services, stream_id: str, tenant: str, *, reaching: int = 0
) -> Stream | Recording:
    """The tenant's stream of this name; raises `RouteRefused` (404).

    The caller has seen the record of seq ``reaching``, so it is waited for.
    """
    check_name(stream_id)
    found = await services.directory.find(stream_id, tenant, reaching=reaching)
    if found is None:
        raise unknown_stream(stream_id)
    return found


def check_name(stream_id: str) -> None:
    """Raise `RouteRefused` (404) for what no stream could be called."""
    if not _STREAM_ID.fullmatch(stream_id):
        raise unknown_stream(stream_id)


def unknown_stream(stream_id: str) -> RouteRefused:
    """The refusal of a name that never was, is no longer, or is another tenant's."""
    return RouteRefused(
        404,
        "stream_not_found",
        f"The stream '{stream_id[:100]}' does not exist, or is no longer kept.",
        param="id",
    )
