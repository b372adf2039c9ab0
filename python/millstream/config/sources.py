"""Puts the sources together: TOML below, environment above, command line on top."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from millstream.config.document import Document
from millstream.config.engines import DEMO_MODEL
from millstream.config.toml import Keys, Tree, leaves, parsed
from millstream.errors import ConfigError

PREFIX = "MILLSTREAM__"
FILE_VARIABLE = "MILLSTREAM_CONFIG"
DEFAULT_FILE = "millstream.toml"


@dataclass(slots=True)
class Sources:
    """The raw tree, and for every value set in it who set it.

    ``tree`` is what ``document`` says, if there is one.
    """

    tree: Tree = field(default_factory=dict)
    document: Document | None = None
    _above: dict[Keys, str] = field(default_factory=dict)
    _origins: dict[Keys, str] | None = None

    def set(self, keys: Keys, value: object, origin: str) -> None:
        """Puts one value in place, over what an earlier source said."""
        table = self.tree
        for key in keys[:-1]:
            below = table.get(key)
            if not isinstance(below, dict):
                below = table[key] = {}
            table = below
        table[keys[-1]] = value
        self._above[keys] = origin
        self._origins = None

    def origin(self, keys: Keys) -> str:
        """Who set this value, or the whole that it is part of; empty for a default."""
        origins = self._all()
        parts = (keys[:length] for length in range(len(keys), 0, -1))
        return next((origins[part] for part in parts if part in origins), "")

    def blame(self, keys: Keys) -> str:
        """Who set this value or, of what is missing, who set something beside it."""
        for length in range(len(keys), 0, -1):
            for known, origin in self._all().items():
                if known[:length] == keys[:length]:
                    return origin
        return ""

    def _all(self) -> dict[Keys, str]:
        """Made when it is asked for: of what is right nobody asks who set it."""
        if self._origins is None:
            said = {} if self.document is None else parsed(self.document)
            origin = "" if self.document is None else self.document.origin
            self._origins = dict.fromkeys((keys for keys, _ in leaves(said)), origin)
            self._origins |= self._above
        return self._origins


def find_file(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The file to read: the one named, else `MILLSTREAM_CONFIG`, else `./millstream.toml`."""
    if path is not None:
        return path
    if named := environ.get(FILE_VARIABLE):
        return Path(named)
    default = Path(DEFAULT_FILE)
    return default if default.is_file() else None


def collect(
    document: Document | None,
    environ: Mapping[str, str],
    overrides: Mapping[Keys, tuple[object, str]],
) -> Sources:
    """Reads every source. ``overrides`` maps keys to a value and the option that gave it."""
    sources = Sources({} if document is None else parsed(document), document)
    if "engines" not in sources.tree:
        sources.tree["engines"] = {"local": {}}
    _apply_environment(sources, environ, models=False)
    _imply_models(sources.tree)
    _apply_environment(sources, environ, models=True)
    for keys, (value, option) in overrides.items():
        sources.set(keys, value, option)
    return sources


def read_document(path: Path) -> Document:
    """The file as it is now; raises `ConfigError`."""
    try:
        with path.open("rb") as file:
            text, status = file.read(), os.fstat(file.fileno())
        return Document(status.st_mtime_ns, text.decode(), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 (byte {error.start})") from error


def _imply_models(tree: Tree) -> None:
    """Without `[models]` every engine's model is served under its own name."""
    engines = tree["engines"]
    if "models" in tree or not isinstance(engines, dict):
        return
    models: Tree = {}
    for name, engine in engines.items():
        model = engine.get("model", DEMO_MODEL) if isinstance(engine, dict) else DEMO_MODEL
        served = PurePath(str(model)).name.removesuffix(".gguf")
        models.setdefault(served, {"routes": [{"engine": name}]})
    tree["models"] = models


def _apply_environment(sources: Sources, environ: Mapping[str, str], *, models: bool) -> None:
    """Takes `MILLSTREAM__SECTION__FIELD`; those of ``models`` come once the models are known."""
    for variable in sorted(environ):
        if not variable.startswith(PREFIX):
            continue
        keys = tuple(variable.removeprefix(PREFIX).lower().split("__"))
        if (keys[0] == "models") == models:
            keys = _known_spelling(sources.tree, keys)
            sources.set(keys, _value(variable, environ[variable]), variable)


def _known_spelling(tree: Tree, keys: Keys) -> Keys:
    """Finds `gpt-4.1` for `GPT_4_1`: variables can spell neither case nor punctuation."""
    spelled: list[str] = []
    table: object = tree
    for key in keys:
        known = list(table) if isinstance(table, dict) else []
        spelled.append(next((name for name in known if _folded(name) == _folded(key)), key))
        table = table.get(spelled[-1]) if isinstance(table, dict) else None
    return tuple(spelled)


def _folded(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name.lower())


def _value(variable: str, text: str) -> object:
    """A variable holds text, or a TOML array or inline table."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{variable}: is not a TOML value: {error}") from error
    except RecursionError:
        raise ConfigError(f"{variable}: is not a TOML value: nested too deeply") from None
