"""From files, environment and command line to checked `Settings`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from millstream.config.problems import describe, translate
from millstream.config.settings import Settings
from millstream.config.sources import Keys, Sources, collect, find_file
from millstream.config.whole import problems_of
from millstream.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Loaded:
    """Checked settings and where they came from."""

    settings: Settings
    sources: Sources
    path: Path | None
    """The file that was read, if any."""


def load(
    path: Path | None = None,
    overrides: Mapping[Keys, tuple[object, str]] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Loads and checks the configuration, and keeps who set what.

    ``path`` None means `MILLSTREAM_CONFIG`, else `./millstream.toml` if there is one.
    ``overrides`` maps keys to a value and the name of the option that gave it. Raises
    `ConfigError`, whose message has a line for each problem: who set it, key, limit.
    """
    variables = os.environ if environ is None else environ
    file = find_file(path, variables)
    sources = collect(file, variables, overrides or {})
    try:
        settings = Settings.model_validate(sources.tree)
    except ValidationError as error:
        raise ConfigError(describe(list(translate(error.errors())), sources)) from None
    if problems := problems_of(settings):
        raise ConfigError(describe(problems, sources))
    return Loaded(settings, sources, file)


def load_settings(
    path: Path | None = None,
    overrides: Mapping[Keys, tuple[object, str]] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Loads and checks the configuration; parameters and `ConfigError` as for `load`."""
    return load(path, overrides, environ).settings
