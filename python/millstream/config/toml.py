"""Reads TOML: a document of a thousand tenants without holding up whoever else is at work."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from millstream._core import parse_toml
from millstream.errors import ConfigError

if TYPE_CHECKING:
    from millstream.config.document import Document

Tree = dict[str, object]
Keys = tuple[str, ...]


def parsed(document: Document) -> Tree:
    """What the document says; raises `ConfigError`."""
    try:
        return parse_toml(document.text)
    except ValueError:
        # It says neither where nor why, and leaves what is rare.
        return _explained(document)


def leaves(tree: Mapping[str, object], above: Keys = ()) -> Iterator[tuple[Keys, object]]:
    """Every value that is no table with something in it."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*above, key))
        else:
            yield (*above, key), value


def _explained(document: Document) -> Tree:
    try:
        tree = tomllib.loads(document.text)
        # Of tables in tables it takes more than anybody can walk through afterwards.
        for _ in leaves(tree):
            pass
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{document.origin}: is not TOML: {error}") from error
    except RecursionError:
        raise ConfigError(f"{document.origin}: is not TOML: nested too deeply") from None
    return tree
