from __future__ import annotations

import pytest
from valkey.connection import Connection

from millstream.store.valkey.wire import Command, packed


@pytest.mark.parametrize(
    "commands",
    [
        [],
        [("PING",)],
        [("XADD", b"ms:{a}:log", "MAXLEN", "=", 8192, b"1-8", "b", bytes(range(256)))],
        [("SET", "schlüssel", "", "PX", -1), ("GET", b"")],
    ],
)
def test_commands_are_packed_as_the_client_library_packs_them(commands: list[Command]) -> None:
    assert packed(commands) == b"".join(Connection().pack_commands(commands))
