"""The frames of an event stream, cut and read by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Frame:
    """One event; ``fields`` are its lines, by name."""

    fields: dict[str, str]

    @property
    def id(self) -> str:
        return self.fields.get("id", "")

    @property
    def seq(self) -> int:
        return int(self.id.split("-")[1])

    @property
    def event(self) -> str:
        return self.fields.get("event", "")

    @property
    def data(self) -> Any:
        return json.loads(self.fields["data"])


def frames(body: bytes) -> list[Frame]:
    """Every event that came whole, comments left out."""
    *whole, _cut = body.decode().split("\n\n")
    lines = [[line for line in frame.split("\n") if line and line[0] != ":"] for frame in whole]
    return [Frame(dict(line.split(": ", 1) for line in frame)) for frame in lines if frame]


def native_text(events: Iterable[Frame], *, branch: int = 0) -> str:
    """The text of one branch of native events."""
    tokens = (frame.data for frame in events if frame.event == "token")
    return "".join(token["text"] for token in tokens if token.get("branch", 0) == branch)


def openai_text(events: Iterable[Frame]) -> str:
    """The text of the first choice of OpenAI's chunks, of chats and of completions."""
    text = ""
    for frame in events:
        if frame.fields["data"] == "[DONE]":
            continue
        for choice in frame.data["choices"]:
            text += choice["text"] if "text" in choice else choice["delta"].get("content", "")
    return text
