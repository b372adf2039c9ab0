"""The README's lists of parameters are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from millstream.api.parameters import HARMLESS
from millstream.api.schemas import ChatCompletionRequest, CompletionRequest, StreamOptions

README = (Path(__file__).parents[3] / "README.md").read_text()
# What a request is made of, beside its parameters.
SHAPE = {"messages", "model", "prompt", "stream", "stream_options"}
IGNORED_OPTION = "include_obfuscation"


def listed(opening: str) -> set[str]:
    """The names in the sentence that begins so."""
    (sentence,) = re.findall(rf"^{opening}(.*?)\.$", README, re.DOTALL | re.MULTILINE)
    return set(re.findall(r"`([a-z_.]+)`", sentence))


def test_what_is_served_is_listed() -> None:
    fields = {*ChatCompletionRequest.model_fields, *CompletionRequest.model_fields} - SHAPE
    options = StreamOptions.model_fields.keys() - {IGNORED_OPTION}

    assert listed("Served: ") == fields | {f"stream_options.{name}" for name in options}


def test_what_is_ignored_is_listed() -> None:
    assert listed("Ignored, ") == HARMLESS | {f"stream_options.{IGNORED_OPTION}"}
