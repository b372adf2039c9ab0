"""The Rust token path; proved against the built module by stubtest."""

from collections.abc import Sequence
from typing import final

from typing_extensions import Buffer

# --- attention ---------------------------------------------------------------------------------

# --- detokenizer -------------------------------------------------------------------------------

# --- hub ---------------------------------------------------------------------------------------

# --- limiter -----------------------------------------------------------------------------------

# --- log ---------------------------------------------------------------------------------------

# --- ring --------------------------------------------------------------------------------------

# --- sse ---------------------------------------------------------------------------------------

@final
class Encoder:
    """Turns records into frames; one per reader.

    ``epoch`` asks for ``id: <epoch>-<seq>`` lines (SSE only). Raises ``ValueError`` on an unknown
    dialect or framing, ``OverflowError`` on a number outside 64 bits without sign.
    """

    def __new__(
        cls,
        *,
        dialect: str,
        framing: str = "sse",
        chunk_id: str,
        model: str,
        created: int,
        include_usage: bool = False,
        metadata: bool = False,
        epoch: int | None = None,
    ) -> Encoder: ...
    def resumed(self) -> Encoder:
        """A copy for a reader that joins later: chat deltas carry no role."""

    def encode(self, records: Sequence[tuple[int, int, int, int, int, str]]) -> bytes:
        """The frames of records ``(seq, time_ns, kind, choice, token_count, text)``.

        Raises ``ValueError`` on an unknown kind and on text that is not Unicode (lone surrogates).
        """

@final
class SseEvent:
    """One dispatched event; ``retry`` in milliseconds."""

    def __new__(cls, event: str, data: str, id: str = "", retry: int | None = None) -> SseEvent: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def event(self) -> str: ...
    @property
    def data(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def retry(self) -> int | None: ...

class SseEventTooLarge(ValueError):
    """An event is larger than its parser allows; the parser takes nothing more."""

@final
class SseParser:
    """An incremental parser of one event stream.

    ``max_event_bytes`` bounds the lines of one event; passing it raises ``SseEventTooLarge`` at
    every call from then on, after the events before it have been given out.
    """

    def __new__(cls, *, max_event_bytes: int = 1048576) -> SseParser: ...
    def feed(self, data: Buffer) -> list[SseEvent]:
        """Takes the next bytes and gives the events that they complete."""

    def finish(self) -> bool:
        """Ends the stream and says whether an unfinished event was discarded.

        The parser is then ready for the next connection of the same source.
        """

    @property
    def last_event_id(self) -> str: ...
    @property
    def retry(self) -> int | None: ...
