"""Passwords are not shown, in whatever part of an address they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.config import load_settings
from millstream.config.secrets import masked
from millstream.errors import ConfigError


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("valkey://user:hunter2@h:6379/0", "valkey://user:***@h:6379/0"),
        ("valkeys://:hunt@er/2@h/0", "valkeys://:***@h/0"),
        ("valkey://h/0?password=hunter2&db=1", "valkey://h/0?password=***&db=1"),
        ("unix:///run/v.sock?db=1&Password=hunter2", "unix:///run/v.sock?db=1&Password=***"),
        ("valkey://h:6379/0", "valkey://h:6379/0"),
        ("smollm2-135m-instruct", "smollm2-135m-instruct"),
    ],
)
def test_a_password_is_masked_and_nothing_else(address: str, shown: str) -> None:
    assert masked(address) == shown


def test_a_mistake_in_an_address_is_told_without_its_password(tmp_path: Path) -> None:
    file = tmp_path / "millstream.toml"
    file.write_text('[store]\nurl = "http://user:hunter2@h/0"\n')
    with pytest.raises(ConfigError, match=r"store\.url") as refused:
        load_settings(file, environ={})
    assert "hunter2" not in str(refused.value)
    assert "***" in str(refused.value)
