"""Passwords are not shown, in whatever part of an address they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.config import load_settings
from millstream.config.secrets import hidden, masked, scrubbed
from millstream.errors import ConfigError


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("valkey://user:hunter2@h:6379/0", "valkey://user:***@h:6379/0"),
        ("valkeys://:hunt@er/2@h/0", "valkeys://:***@h/0"),
        ("valkey://h/0?password=hunter2&db=1", "valkey://h/0?password=***&db=1"),
        ("unix:///run/v.sock?db=1&Password=hunter2", "unix:///run/v.sock?db=1&Password=***"),
        ("https://tok3n@h/jwks", "https://***@h/jwks"),
        ("https://u:hunter2@h/jwks", "https://u:***@h/jwks"),
        (
            "https://h/jwks?tenant=a&api_key=k&X-Sig=s",
            "https://h/jwks?tenant=a&api_key=***&X-Sig=***",
        ),
        ("https://h:8443/a?b=c", "https://h:8443/a?b=c"),
        ("valkey://reader@h/0", "valkey://reader@h/0"),
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


def test_a_malformed_address_is_told_without_its_password() -> None:
    message = "store.url: must match pattern, not 'valkey//u:hunter2@h'\nserver.port: too high: 9@"
    shown = "store.url: must match pattern, not 'valkey//u:***@h'\nserver.port: too high: 9@"
    assert scrubbed(message) == shown


def test_every_text_of_a_tree_is_masked() -> None:
    tree = {"a": {"url": "valkey://:pw@h/0"}, "b": [1, None, ("https://t@h",)], "c": True}
    shown = {"a": {"url": "valkey://:***@h/0"}, "b": [1, None, ["https://***@h"]], "c": True}
    assert hidden(tree) == shown
