"""A producer in a process of its own: writes numbered records at full speed until it is killed."""

from __future__ import annotations

import socket
import sys

from millstream._core import RingProducer


def main() -> None:
    """Receive both descriptors over the socket named by its number, then write."""
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        _, descriptors, _, _ = socket.recv_fds(channel, 16, 2)
        ring = RingProducer(*descriptors)
        limit = int(sys.argv[2])
        for number in range(limit):
            text = f"{number} é漢🦀 " * (number % 9)
            ring.write(number, 1, text, token_count=1, time_ns=number)
            while ring.flush():
                pass
        channel.send(b"done")


if __name__ == "__main__":
    main()
