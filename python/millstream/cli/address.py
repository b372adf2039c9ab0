"""Which address the server gets, and how clients write it."""

from __future__ import annotations

import socket

from millstream.errors import ConfigError


def claim(host: str, port: int) -> tuple[str, int]:
    """The numeric address and the port to listen on; port 0 becomes a free one.

    Granian's workers share their port (`SO_REUSEPORT`), so a second server on the same port would
    not fail but take a part of the first one's connections. Raises `ConfigError` if the name is
    unknown or somebody listens there.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            bound = probe.getsockname()
    except OSError as error:
        raise ConfigError(
            f"server.host, server.port: cannot listen on {host} port {port}: {error.strerror}"
        ) from error
    return str(bound[0]), int(bound[1])


def url(host: str, port: int) -> str:
    """The server's URL for a client on this machine."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not listened on
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
