"""Packages that only some settings need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from millstream.errors import ConfigError


@contextmanager
def needed_by(setting: str, package: str) -> Iterator[None]:
    """For the imports of a part that ``setting`` asks for, and that needs this package.

    Raises `ConfigError` if it is not installed. It is an extra of ours by the same name.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise ConfigError(
            f'{setting} needs the package `{package}`: pip install "millstream[{package}]"'
        ) from error
