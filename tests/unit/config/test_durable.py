"""Durable streams live in one worker's memory: what that means for the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.config import Settings, load_settings
from millstream.errors import ConfigError


def loaded(folder: Path, toml: str) -> Settings:
    path = folder / "millstream.toml"
    path.write_text(toml)
    return load_settings(path, environ={})


def test_asking_for_durable_streams_in_several_workers_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"durable\.enabled: .*server\.workers = 2"):
        loaded(tmp_path, "[server]\nworkers = 2\n[durable]\nenabled = true\n")


@pytest.mark.parametrize(
    "toml",
    [
        "",
        "[durable]\nenabled = true\n",
        "[server]\nworkers = 2\n",
        "[server]\nworkers = 2\n[durable]\nenabled = false\n",
        "[server]\nworkers = 2\n[durable]\nmax_streams = 5\n",
    ],
)
def test_everything_else_loads(tmp_path: Path, toml: str) -> None:
    assert loaded(tmp_path, toml).durable.max_bytes > 0
