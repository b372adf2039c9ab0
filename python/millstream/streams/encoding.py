"""From a stream's descriptor to the encoder of one of its readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from millstream._core import Encoder

if TYPE_CHECKING:
    from millstream.store.descriptor import Descriptor, DialectName

Framing = Literal["sse", "ndjson"]
Asked = Literal["native", "openai"]

TYPED_END = frozenset[str]({"native", "responses"})
"""Dialects whose last frame names every outcome, so that the body after it ends properly. In the
others only a whole answer has a last frame, and any other body is cut."""


def dialect_of(descriptor: Descriptor, asked: Asked | None = None) -> DialectName:
    """The dialect of a reader that asks for this one; None is that in which the stream was made."""
    if asked == "native":
        return "native"
    if asked == "openai" and descriptor.dialect == "native":
        return "chat"
    return descriptor.dialect


def encoder_for(
    descriptor: Descriptor,
    *,
    framing: Framing = "sse",
    dialect: Asked | None = None,
    retry_ms: int | None = None,
    metadata: bool | None = None,
    starting_after: int | None = None,
    after_seq: int | None = None,
    ids: bool | None = None,
) -> Encoder:
    """The encoder of a reader; what it does not ask for is as when the stream was made.

    ``retry_ms`` goes into its first frame; ``starting_after`` is a ``sequence_number`` of the
    Responses dialect, ``after_seq`` a seq of which that dialect knows what came before; ``ids``
    says whether records carry their event ids.
    """
    first, spoken = descriptor.branches[0], dialect_of(descriptor, dialect)
    return Encoder(
        dialect=spoken,
        framing=framing,
        chunk_id=first.chunk_id,
        model=first.model,
        created=descriptor.created,
        include_usage=descriptor.include_usage,
        metadata=descriptor.metadata if metadata is None else metadata,
        epoch=descriptor.epoch if (descriptor.resumable if ids is None else ids) else None,
        integrity=descriptor.integrity,
        fields=descriptor.fields,
        retry_ms=retry_ms,
        stream_id=descriptor.id,
        branches=_branches(descriptor),
        response=descriptor.response if spoken == "responses" else None,
        starting_after=starting_after,
        after_seq=after_seq,
    )


def _branches(descriptor: Descriptor) -> list[tuple[str, str]] | None:
    if len(descriptor.branches) == 1:
        return None
    return [(branch.model, branch.chunk_id) for branch in descriptor.branches]
