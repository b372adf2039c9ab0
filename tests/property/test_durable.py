"""Whatever is appended, however it is cut and read: every reader gets it once and in order."""

from __future__ import annotations

import json
from base64 import b64decode

from hypothesis import given
from hypothesis import strategies as st

from millstream import SseParser
from millstream.durable.content import ByteContent, JsonContent
from millstream.durable.messages import split_messages
from millstream.durable.sse import data_event, whole_characters
from tests.unit.durable.making import JSON, TEXT, media_type

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)
SIZES = st.lists(st.integers(1, 40), min_size=1)


def sizes(drawn: list[int], index: int) -> int:
    return drawn[index % len(drawn)]


@given(st.lists(st.binary(min_size=1)), SIZES)
def test_bytes_put_together_are_what_was_appended(appends: list[bytes], reads: list[int]) -> None:
    content = ByteContent()
    for append in appends:
        content.append([append])

    found, position, turn = b"", 0, 0
    while position < content.tail:
        extract = content.read(position, sizes(reads, turn))
        found, position, turn = found + extract.data, extract.end, turn + 1

    assert found == b"".join(appends)


@given(st.lists(st.lists(JSON_VALUES, min_size=1, max_size=4)), SIZES, st.booleans())
def test_messages_put_together_are_what_was_appended(
    batches: list[list[object]], reads: list[int], indented: bool
) -> None:
    content = JsonContent()
    for batch in batches:
        content.append(split_messages(json.dumps(batch, indent=1 if indented else None).encode()))

    found: list[object] = []
    position, turn = 0, 0
    while position < content.tail:
        extract = content.read(position, sizes(reads, turn))
        (event,) = SseParser().feed(data_event(extract.data, JSON))
        found += json.loads(event.data)
        position, turn = extract.end, turn + 1

    assert found == [value for batch in batches for value in batch]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r")), SIZES)
def test_text_in_events_is_the_text_wherever_it_is_cut(text: str, reads: list[int]) -> None:
    content = ByteContent()
    content.append([text.encode()])

    found, position, turn = "", 0, 0
    while position < content.tail:
        # Four bytes at least: fewer may hold no whole character.
        data = whole_characters(content.read(position, sizes(reads, turn) + 3).data)
        (event,) = SseParser().feed(data_event(data, TEXT))
        found, position, turn = found + event.data, position + len(data), turn + 1

    assert found == text


@given(st.binary())
def test_bytes_in_events_are_the_bytes(data: bytes) -> None:
    events = SseParser().feed(data_event(data, media_type("application/octet-stream")))

    assert b"".join(b64decode(event.data) for event in events) == data
