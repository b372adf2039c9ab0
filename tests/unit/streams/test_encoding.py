"""An encoder for every reader of one stream."""

from __future__ import annotations

import msgspec
import pytest

from millstream._core import Log, Reader
from millstream.store import BranchDescriptor, Descriptor
from millstream.streams.encoding import Asked, Framing, dialect_of, encoder_for
from millstream.types import Kind


def descriptor(**changes: object) -> Descriptor:
    given: dict[str, object] = {
        "id": "s",
        "route": "chat.completion",
        "dialect": "chat",
        "created": 7,
        "branches": (BranchDescriptor(model="m", chunk_id="chatcmpl-s"),),
    }
    return Descriptor(**given | changes)  # type: ignore[arg-type]


def frames(made: Descriptor, **asked: object) -> str:
    """What a reader gets of a stream of one token."""
    log = Log(branches=len(made.branches), integrity=b"s" if made.integrity else None)
    log.append(Kind.TOKEN, "a", token_count=1, time_ns=1)
    encoder = encoder_for(made, **asked)  # type: ignore[arg-type]
    return Reader(log, encoder).take().decode()


@pytest.mark.parametrize(
    ("made", "asked", "spoken"),
    [
        ("chat", None, "chat"),
        ("completion", "openai", "completion"),
        ("completion", "native", "native"),
        ("native", None, "native"),
        ("native", "openai", "chat"),
        ("responses", "openai", "responses"),
        ("responses", "native", "native"),
    ],
)
def test_a_reader_gets_the_dialect_that_it_asks_for(
    made: str, asked: Asked | None, spoken: str
) -> None:
    assert dialect_of(descriptor(dialect=made), asked) == spoken


def test_a_stream_with_no_wishes_is_data_lines_only() -> None:
    text = frames(descriptor())
    assert {line.partition(":")[0] for line in text.splitlines() if line} == {"data"}
    assert '"stream"' not in text


def test_what_was_asked_for_at_the_beginning_holds_for_every_read() -> None:
    # langgraph#7778: options that a stream was made with were lost on resuming.
    made = descriptor(resumable=True, integrity=True, fields=True, metadata=True)
    text = frames(made, retry_ms=2600)
    assert "id: 1-1-" in text
    assert "retry: 2600" in text
    assert "model-id: m" in text
    assert '"seq":1' in text


def test_a_reader_can_ask_for_metadata_of_its_own() -> None:
    assert '"seq":1' in frames(descriptor(), metadata=True)
    assert '"seq":1' not in frames(descriptor(metadata=True), metadata=False)


@pytest.mark.parametrize("framing", ["sse", "ndjson"])
def test_of_several_branches_each_is_named(framing: Framing) -> None:
    branches = tuple(BranchDescriptor(model=f"m{i}", chunk_id=f"c-{i}") for i in range(2))
    text = frames(descriptor(branches=branches), framing=framing, dialect="native")
    line = text.splitlines()[-2] if framing == "sse" else text.splitlines()[0]
    event = msgspec.json.decode(line.removeprefix("data: "))
    assert (event["branch"], event["model"]) == (0, "m0")
