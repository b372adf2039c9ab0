"""Which limiter the settings name."""

from __future__ import annotations

import sys

import pytest

from millstream.admission import MemoryLimiter
from millstream.admission.valkey import ValkeyLimiter
from millstream.assembly.limiter import open_limiter
from millstream.config import Settings, load_settings
from millstream.errors import ConfigError


def settings(kind: str) -> Settings:
    return load_settings(overrides={("limiter", "kind"): (kind, "")}, environ={})


def test_limits_are_counted_in_memory_or_in_valkey() -> None:
    assert isinstance(open_limiter(settings("memory"), clock=lambda: 0), MemoryLimiter)
    assert isinstance(open_limiter(settings("valkey"), clock=lambda: 0), ValkeyLimiter)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("millstream.admission.valkey")]:
        monkeypatch.delitem(sys.modules, module)
    for module in ("valkey", "valkey.asyncio", "valkey.asyncio.connection", "valkey.exceptions"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=r'pip install "millstream\[valkey\]"'):
        open_limiter(settings("valkey"), clock=lambda: 0)
