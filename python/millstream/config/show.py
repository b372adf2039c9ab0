"""Writes settings as TOML, each value with who set it, secrets hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from millstream.config.load import Loaded
from millstream.config.problems import bare_or_quoted, quoted
from millstream.config.secrets import masked
from millstream.config.sources import Sources
from millstream.config.toml import Keys


def to_toml(loaded: Loaded) -> str:
    """The effective configuration, readable as a configuration file (but for its secrets)."""
    tree = loaded.settings.model_dump(mode="json")
    return "\n".join(_table(tree, (), loaded.sources)).strip() + "\n"


def _table(table: Mapping[str, object], keys: Keys, sources: Sources) -> Iterator[str]:
    tables = {key: value for key, value in table.items() if isinstance(value, dict) and value}
    values = {key: value for key, value in table.items() if key not in tables}
    if keys and values:
        yield ""
        yield f"[{'.'.join(map(bare_or_quoted, keys))}]"
    for key, value in values.items():
        yield _line(key, value, sources.origin((*keys, key)))
    for key, below in tables.items():
        yield from _table(below, (*keys, key), sources)


def _line(key: str, value: object, origin: str) -> str:
    comment = f"  # {origin}" if origin else ""
    if value is None:
        return f"# {bare_or_quoted(key)} is unset"
    return f"{bare_or_quoted(key)} = {_value(value)}{comment}"


def _value(value: object) -> str:
    if isinstance(value, dict):
        pairs = (f"{bare_or_quoted(key)} = {_value(below)}" for key, below in value.items())
        return "{ " + ", ".join(pairs) + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    # JSON's numbers and booleans are TOML's.
    if isinstance(value, str):
        return quoted(masked(value))
    return json.dumps(value)
