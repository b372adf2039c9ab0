"""Ids of responses and of their items, made from the stream's."""

from __future__ import annotations

RESPONSE_PREFIX = "resp_"
ITEM_PREFIX = "msg_"


def response_id(stream_id: str) -> str:
    """The id that clients know the stream by."""
    return f"{RESPONSE_PREFIX}{stream_id}"


def item_id(stream_id: str) -> str:
    """The id of the one message that a response consists of."""
    return f"{ITEM_PREFIX}{stream_id}"


def stream_id_of(response_id: str) -> str | None:
    """The id of the stream behind a response, None for what is no response's id."""
    if not response_id.startswith(RESPONSE_PREFIX):
        return None
    return response_id.removeprefix(RESPONSE_PREFIX)
