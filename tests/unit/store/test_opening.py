from __future__ import annotations

import sys

import pytest

from millstream.config.store import StoreSettings
from millstream.errors import ConfigError
from millstream.store import MemoryStore, open_store
from tests.unit.store.recordings import Observed


async def test_memory_is_the_store_unless_the_settings_say_otherwise() -> None:
    observed = Observed()
    store = open_store(StoreSettings(), observer=observed)
    await store.start()
    assert isinstance(store, MemoryStore)
    assert not store.shared
    assert observed.ups == [True]
    await store.close()


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in [name for name in sys.modules if name.startswith("millstream.store.valkey")]:
        monkeypatch.delitem(sys.modules, module)
    for module in ("valkey", "valkey.asyncio", "valkey.asyncio.connection", "valkey.exceptions"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=r'pip install "millstream\[valkey\]"'):
        open_store(StoreSettings(kind="valkey"))
