"""From files, environment and command line to checked `Settings`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from millstream.config.document import Document
from millstream.config.known import with_known_tenants
from millstream.config.problems import describe, translate
from millstream.config.settings import Settings
from millstream.config.sources import PREFIX, Sources, collect, find_file, read_document
from millstream.config.toml import Keys
from millstream.config.whole import problems_of
from millstream.errors import ConfigError

Overrides = Mapping[Keys, tuple[object, str]]


@dataclass(frozen=True, slots=True)
class Loaded:
    """Checked settings and where they came from."""

    settings: Settings
    sources: Sources
    path: Path | None
    """The file that was read, if any."""
    document: Document | None = None
    """What it said, or what was taken in its stead."""
    overrides: Overrides = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the environment what concerns the configuration, as it was."""

    def again(self, document: Document | None = None) -> Loaded:
        """The same with the file as it is now, or with a document in its stead.

        Environment and command line stay as they were and above it. Tenants of which nothing has
        changed are the same objects. Raises `ConfigError`.
        """
        return _load(self.path, self.overrides, self.environ, document, self)


def load(
    path: Path | None = None,
    overrides: Overrides | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Loads and checks the configuration, and keeps who set what.

    ``path`` None means `MILLSTREAM_CONFIG`, else `./millstream.toml` if there is one.
    ``overrides`` maps keys to a value and the name of the option that gave it. Raises
    `ConfigError`, whose message has a line for each problem: who set it, key, limit.
    """
    variables = os.environ if environ is None else environ
    kept = {name: value for name, value in variables.items() if name.startswith(PREFIX)}
    return _load(find_file(path, variables), overrides or {}, kept)


def load_settings(
    path: Path | None = None,
    overrides: Overrides | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Loads and checks the configuration; parameters and `ConfigError` as for `load`."""
    return load(path, overrides, environ).settings


def _load(
    file: Path | None,
    overrides: Overrides,
    environ: Mapping[str, str],
    document: Document | None = None,
    before: Loaded | None = None,
) -> Loaded:
    if document is None and file is not None:
        document = read_document(file)
    sources = collect(document, environ, overrides)
    tree = sources.tree
    if before is not None:
        tree = with_known_tenants(tree, before.sources.tree, before.settings)
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(describe(list(translate(error.errors())), sources)) from None
    if problems := problems_of(settings):
        raise ConfigError(describe(problems, sources))
    return Loaded(settings, sources, file, document, overrides, environ)
