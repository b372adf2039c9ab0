"""Tokens whose text is the monotonic time at which they were made."""

from __future__ import annotations

import re
import selectors
import socket
import time

END = b"0\r\n\r\n"
"""The last bytes of a chunked body."""

_STAMP = re.compile(rb" (\d{8,}) ")


def delays_ns(sockets: list[socket.socket]) -> list[int]:
    """How old every token is on arrival, over all sockets until each has had its whole body."""
    selector = selectors.DefaultSelector()
    for one in sockets:
        one.setblocking(False)
        selector.register(one, selectors.EVENT_READ)
    delays: list[int] = []
    left = len(sockets)
    while left:
        for key, _ in selector.select():
            assert isinstance(key.fileobj, socket.socket)
            data = key.fileobj.recv(1 << 16)
            now = time.monotonic_ns()
            delays += [now - int(stamp) for stamp in _STAMP.findall(data)]
            if not data or data.endswith(END):
                selector.unregister(key.fileobj)
                left -= 1
    return delays
