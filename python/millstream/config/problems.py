"""Says what is wrong with a configuration: who set it, which key, which limit."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Union, get_args, get_origin

from pydantic import BaseModel

from millstream.config.secrets import masked
from millstream.config.settings import Settings

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from millstream.config.sources import Sources

Location = tuple[int | str, ...]

# Pydantic's words are for the author of a model; these are for the author of a file.
_WORDS = {
    "model_type": "must be a table",
    "dict_type": "must be a table",
    "tuple_type": "must be an array",
    "missing": "is required",
    "bool_parsing": "must be true or false",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "string_type": "must be text",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}
# Text of the wrong type may be a secret, so it is not repeated.
_VALUE_SAYS_NOTHING = frozenset({"string_type", "not_boolean", "string_too_short"})


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, at one key."""

    location: Location
    message: str


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say to someone who wrote ``name``: the nearest known one, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    return "known are " + ", ".join(f"`{name}`" for name in names) if names else "none is known"


def translate(errors: Iterable[ErrorDetails]) -> Iterator[Problem]:
    """Turns pydantic's errors into problems in the words of the file."""
    for error in errors:
        location = tuple(part for part in error["loc"] if part != "[key]")
        yield Problem(location, _message(error, location))


def describe(problems: Sequence[Problem], sources: Sources) -> str:
    """All problems in one text, a line each: origin, key, what is wrong."""
    lines = []
    for problem in problems:
        names = tuple(part for part in problem.location if isinstance(part, str))
        origin = sources.origin(names) or sources.blame(names)
        where = f"{origin}: " if origin else ""
        lines.append(f"{where}{dotted(problem.location)}: {problem.message}")
    return "\n".join(lines)


def dotted(location: Location) -> str:
    """`models."gpt-4.1".routes[0].engine`: the key as TOML spells it."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + bare_or_quoted(part)
    return text


def bare_or_quoted(key: str) -> str:
    """A TOML key: bare where its letters allow it."""
    bare = key.replace("_", "").replace("-", "")
    return key if bare.isalnum() and key.isascii() else quoted(key)


def quoted(text: str) -> str:
    """A TOML string: JSON's escapes are TOML's, and DEL must be escaped besides."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _message(error: ErrorDetails, location: Location) -> str:
    kind = error["type"]
    if kind == "extra_forbidden":
        return f"unknown key; {nearest(str(location[-1]), _fields_around(location))}"
    if kind == "missing":
        return _WORDS[kind]
    message = _WORDS.get(kind) or _sentence(error["msg"])
    value = error["input"]
    shown = isinstance(value, int | float | str) and kind not in _VALUE_SAYS_NOTHING
    return f"{message}, not {masked(repr(value))}" if shown else message


def _sentence(message: str) -> str:
    return message.replace("Input should be", "must be").replace("String should", "must")


def _fields_around(location: Location) -> list[str]:
    """Known keys of the table that holds the last part of ``location``."""
    annotation: object = Settings
    for part in location[:-1]:
        model = _model_in(annotation)
        if model is not None and part in model.model_fields:
            annotation = model.model_fields[str(part)].annotation
        else:
            annotation = _element_of(annotation)
    model = _model_in(annotation)
    return list(model.model_fields) if model is not None else []


def _model_in(annotation: object) -> type[BaseModel] | None:
    for candidate in _alternatives(annotation):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _element_of(annotation: object) -> object:
    """`X` of `dict[str, X]` and of `tuple[X, ...]`."""
    for candidate in _alternatives(annotation):
        arguments = [part for part in get_args(candidate) if part is not Ellipsis]
        if arguments:
            return arguments[-1]
    return None


def _alternatives(annotation: object) -> tuple[object, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
