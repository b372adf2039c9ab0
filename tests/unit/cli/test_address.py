from __future__ import annotations

import socket

import pytest

from millstream.cli.address import claim, url
from millstream.errors import ConfigError


def test_port_zero_becomes_a_free_port() -> None:
    address, port = claim("127.0.0.1", 0)

    assert address == "127.0.0.1"
    with socket.create_server((address, port)) as listener:
        assert listener.getsockname() == (address, port)


def test_a_name_becomes_its_address() -> None:
    assert claim("localhost", 0)[0] in {"127.0.0.1", "::1"}


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"server.host.*cannot listen on 192.0.2.1 port 80"):
        claim("192.0.2.1", 80)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("::1", "http://[::1]:8000"),
        ("localhost", "http://localhost:8000"),
    ],
)
def test_the_url_is_one_that_a_client_here_can_use(host: str, expected: str) -> None:
    assert url(host, 8000) == expected
