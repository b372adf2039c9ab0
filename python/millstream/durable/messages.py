"""JSON mode: a body becomes messages, each kept as it was written."""

from __future__ import annotations

import msgspec

_VALUE = msgspec.json.Decoder(msgspec.Raw)
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])


def split_messages(body: bytes) -> list[bytes]:
    """The messages of a body: the elements of an array, else the value itself.

    Raises `ValueError` for what is not JSON in UTF-8, and says where.
    """
    try:
        body.decode()
        whole = bytes(_VALUE.decode(body))
        if whole.startswith(b"["):
            return [bytes(element) for element in _ELEMENTS.decode(whole)]
        return [whole]
    except UnicodeDecodeError as error:
        raise ValueError(f"The body is not UTF-8 (byte {error.start}).") from None
    except msgspec.DecodeError as error:
        raise ValueError(f"The body is not JSON. {error}") from None
    except RecursionError:
        raise ValueError("The body is nested too deeply.") from None
